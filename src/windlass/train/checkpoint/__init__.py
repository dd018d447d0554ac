"""Checkpoints: verified, atomic, written in the background, with fallback to an older one when the newest is damaged.

Belongs here: when to save, staging, saving and loading through torch's DCP, random generators, export. `store` holds
what needs no torch, `replicas` the in-memory replicas. Does not belong here: the content of a state, and the consensus
on a save (`run`, `step`).
"""
