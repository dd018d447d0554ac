"""Placement of one gang on nodes: topology domains, node scores, elastic sizes, all or nothing.

Belongs here: the search for nodes on which a gang fits. Does not belong here: the order of gangs, or preemption.
"""
