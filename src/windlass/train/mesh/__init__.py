"""The assignment of ranks to work: degrees of parallelism, and the rank groups that follow from them.

Belongs here: arithmetic on ranks (pure), the choice of the `auto` mesh (pure), and torch's device mesh built from both.
Does not belong here: the transformation of a model on the mesh (`parallel`).
"""
