"""Copies of each rank's state in the memory of nodes: its own, and another one's. They outlive ranks, not the job.

Belongs here: which copies there are and whose (pure), one copy as a file with a checksum, making copies behind
training's back, and agreeing on one to go on from. Does not belong here: checkpoints at a place, which outlive
everything; who makes the folder and removes it (the agent).
"""
