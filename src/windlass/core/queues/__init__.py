"""Queues: the quota tree, usage, limits, fair share, and the order in which waiting gangs are considered.

Belongs here: the choice of the next gang, and what its queue may use. Does not belong here: nodes.
"""
