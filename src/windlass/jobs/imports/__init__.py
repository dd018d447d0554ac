"""Shared parts of every import of a foreign file: outcomes of its parts, the job with its losses, and its text."""
