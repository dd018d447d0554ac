"""Node scores: one file for each score that a policy can name, and the registry that looks them up.

A score ranks nodes on which a replica fits (`node_score.NodeScore`). Nothing outside this package depends on a single
score's name.
"""
