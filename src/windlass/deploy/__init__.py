"""Objects of an installation in a cluster: definitions of kinds, permissions, the operator; and their installation.

Everything except `install/` is pure: functions that return API objects from tables that state each fact once.
`tools/write_deployment.py` writes the files under `deploy/` at the root of the repository from it, and a test compares
them.

Does not belong here: the objects that a job becomes (`jobs.kubernetes`), and running jobs (`backends.kubernetes`).
"""
