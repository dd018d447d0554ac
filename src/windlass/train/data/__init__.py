"""Which samples a rank reads at which step: the same for the whole batch, however many ranks there are.

Belongs here: the order as a pure function, the slices of a batch (pure), and loaders that read what these say.
Does not belong here: what is done with a batch (`step`).
"""
