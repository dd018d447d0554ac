"""Whole jobs on two real nodes, as people start them: kubectl, the windlass command line, and the operator between."""
