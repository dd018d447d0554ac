"""The world on Kubernetes: jobs as pods of a real cluster.

Belongs here: everything that asks or tells an API server. Does not belong here: what an event means and who starts
where (core), what a manifest says and becomes (`jobs.kubernetes`), words for people beyond one line of detail (cli).
"""
