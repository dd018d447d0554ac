"""Which ranks do what: the degrees of parallelism, and the groups of ranks that follow from them.

Belongs here: arithmetic on ranks (pure), the choice made for `auto` (pure), torch's device mesh made of both.
Does not belong here: what is done to a model on the mesh (`parallel`).
"""
