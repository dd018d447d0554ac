"""What is installed into a cluster: definitions of kinds, permissions, the operator's own objects; and installing it.

Everything here but `install/` is pure: functions that return API objects, of tables that say each thing once. The files
under `deploy/` at the root of the repository are written from it by `tools/write_deployment.py`, and a test holds both
together.

What does not belong here: what a job becomes (`jobs.kubernetes`), and running jobs (`worlds.kubernetes`).
"""
