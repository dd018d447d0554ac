"""Checks over the objects of a cluster: pure functions that return steps."""
