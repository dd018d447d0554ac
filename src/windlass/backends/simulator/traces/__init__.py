"""Trace readers: one module for each format, all of which produce `TraceJob`.

Belongs here: the meaning of columns, the refusal of invalid rows. Does not belong here: clusters, and the division of
a job's GPUs among nodes (`backends.simulator.gangs`).
"""
