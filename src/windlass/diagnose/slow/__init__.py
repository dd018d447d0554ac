"""Finds out what a training job waits for, from the time that its ranks have spent in each phase."""
