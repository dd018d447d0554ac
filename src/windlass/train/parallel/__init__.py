"""Builds a model on a mesh from a model and a plan; its training step is the same mathematics as on one device.

Belongs here: the plan, repeated blocks, tensor-parallel styles, pipeline stages, shards and replicas, precision,
recomputation. Does not belong here: running the step (`step`), and torch's own part: DTensor, FSDP2, DDP and pipeline
schedules.
"""
