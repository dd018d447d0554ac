"""Checks over the facts of a machine: pure functions that return steps."""
