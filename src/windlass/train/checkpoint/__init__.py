"""Checkpoints: verified, atomic, made in the background, and the older one when the newest is damaged.

Belongs here: when to save, staging, saving and loading through torch's DCP, generators of random numbers, export.
`store` holds what needs no torch. Does not belong here: what is in a state, and who votes for a save (`run`, `step`).
"""
