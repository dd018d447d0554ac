"""Errors of this package: a request that cannot be planned, with the reason and what is possible instead."""

from __future__ import annotations


class PlanError(Exception):
    """A request that has no plan, or an input that cannot be read. The text is complete: it is printed as it is."""
