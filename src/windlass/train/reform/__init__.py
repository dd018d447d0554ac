"""Going on in place when ranks are lost: the same process, as a rank of the next generation.

Belongs here: noticing that a step is void, letting go of those that are gone, what a rank must give or take to be where
the others are.
Does not belong here: who is a member, which the agent says; what a run consists of (`run`, `checkpoints`).
"""
