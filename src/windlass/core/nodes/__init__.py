"""Nodes as dense arrays: constraint masks per demand, free capacity, assigned devices.

Belongs here: facts about nodes per demand. Does not belong here: the choice of a node, which is `core.placement`.
"""
