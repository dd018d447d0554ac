"""The training library: what a script imports when plain data parallelism is no longer enough.

Importing this loads nothing: the command line reads checkpoints through `windlass.train.checkpoint.store` where torch
is not installed.
"""
