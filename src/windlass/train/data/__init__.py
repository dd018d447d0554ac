"""Assignment of samples to ranks and steps: the same global batch, on any number of ranks.

Belongs here: the order as a pure function, the slices of a batch (pure), and loaders that read them. Does not belong
here: the use of a batch (`step`).
"""
