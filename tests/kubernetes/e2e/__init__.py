"""Whole jobs on two real nodes, started as users start them: by kubectl or windlass, with the operator."""
