"""Verbs on a Slurm that schedules the jobs itself (`--on slurm`), over `backends.slurm`.

`client` has the calls and answers of `server.client.Client`; `run` is the target of `windlass run` and `submit`.
"""
