"""Readers of a machine's facts: files below a root folder, and calls that a test replaces."""
