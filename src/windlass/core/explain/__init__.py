"""Answers about one gang: why it waits, when it may start, which request would start now, whether it can ever run.

Belongs here: read-only questions. Nothing here changes what is scheduled.
"""
