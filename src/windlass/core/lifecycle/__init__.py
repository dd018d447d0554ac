"""The life of a job as a state machine: events, transitions, commands, failure classes.

Belongs here: what an event makes of one job. Does not belong here: anything about other jobs or about nodes.
"""
