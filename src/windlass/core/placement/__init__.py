"""Placement of one gang on nodes: topology domains, node scores, elastic sizes, all or nothing.

Belongs here: where a gang fits. Does not belong here: which gang is placed next, or what running gangs give up.
"""
