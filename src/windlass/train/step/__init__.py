"""One step: backward over the micro-batches, what all ranks agree on, clipping, the optimizer's move.

Belongs here: the mathematics that has to come out the same on every mesh, and the vote.
Does not belong here: which samples a batch has (`data`), what is kept of a step (`checkpoint`, `telemetry`).
"""
