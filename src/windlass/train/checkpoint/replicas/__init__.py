"""In-memory checkpoint replicas: each rank's state in the memory of its node and of another one.

They outlive ranks, not the job. Belongs here: placement of replicas (pure), one replica as a file with a checksum,
writing replicas in the background, and agreeing on one to resume from. Does not belong here: checkpoints in storage,
which outlive everything; creating and removing the folder (the agent).
"""
