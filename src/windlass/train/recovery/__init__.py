"""In-place recovery after the loss of ranks: the surviving processes continue as ranks of the next generation.

Belongs here: detecting that a step is aborted, releasing the groups of lost ranks, broadcasting the state to new ranks.
Does not belong here: membership, which the agent decides; what a run consists of (`run`, `run_checkpoints`).
"""
