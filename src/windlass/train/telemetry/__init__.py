"""Measurements of a run: step times, utilisation and losses, measured on each rank and reported by the first.

Belongs here: timers of the phases of a step, FLOPs and utilisation, heartbeats to the agent, console lines and
trackers. Does not belong here: verdicts on what is measured (`health`).
"""
