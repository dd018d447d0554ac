"""One training step: backward over micro-batches, step consensus, gradient clipping, and the optimizer's step.

Belongs here: mathematics that has the same result on every mesh, and the step consensus. Does not belong here: the
samples of a batch (`data`), and what outlives a step (`checkpoint`, `telemetry`).
"""
