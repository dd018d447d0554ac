"""One scheduling cycle: from a snapshot to a plan, with the reason of every gang that waits.

Belongs here: the sequence of steps. Each step itself is in the package of its concept.
"""
