"""Findings of an installation check: a subject, its severity, a message and a fix."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    """The state may be intended."""
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a check."""

    about: str
    """The part that was checked, such as "kinds" or "leader"."""
    severity: Severity
    message: str
    fix: str = ""
    """Empty where no action is needed."""


def ok(about: str, message: str) -> Finding:
    """A finding that needs no action."""
    return Finding(about, Severity.OK, message)


def warning(about: str, message: str, fix: str) -> Finding:
    """A finding that may need an action."""
    return Finding(about, Severity.WARNING, message, fix)


def failure(about: str, message: str, fix: str) -> Finding:
    """A finding that needs an action."""
    return Finding(about, Severity.ERROR, message, fix)
