"""Backend for Kubernetes: runs jobs as pods of a real cluster.

Belongs here: all requests to an API server. Does not belong here: the meaning of events and the choice of nodes
(`core`), the meaning of manifests (`jobs.kubernetes`), messages for people beyond one line of detail (`cli`).
"""
