"""Nodes as dense arrays: which of them pass a gang's constraints, what is free on them, which devices are assigned.

Belongs here: facts about nodes per demand. Does not belong here: the choice of a node, which is `core.placement`.
"""
