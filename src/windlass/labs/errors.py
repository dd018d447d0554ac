"""Errors of the workshop. The text of each states the fix in its second line."""

from __future__ import annotations


class LabError(Exception):
    """A request that names no lab, card or quiz, or a lab that cannot start here."""


class LabStateError(LabError):
    """The state of a lab does not allow this request."""
