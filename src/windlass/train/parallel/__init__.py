"""A model and a plan become a model on a mesh, whose training step is the same mathematics as on one device.

Belongs here: what a plan says, repeated blocks, tensor plans, stages, shards and replicas, precision, recomputation.
Does not belong here: running it (`step`), and torch's own work: DTensor, FSDP2, DDP and the pipeline's schedules.
"""
