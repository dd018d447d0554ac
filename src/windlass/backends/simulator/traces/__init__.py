"""Readers of traces: one file for each format, all ending in the same `TraceJob`.

Belongs here: what a column means, and refusing rows that make no sense. Does not belong here: clusters, and how a
job's GPUs are divided among nodes (`backends.simulator.gangs`).
"""
