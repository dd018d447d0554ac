"""What a look at an installation has found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How it stands with one thing."""

    FINE = "ok"
    ODD = "odd"
    """It may be meant so."""
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a check: what was looked at, how it stands, and what to do about it."""

    about: str
    verdict: Verdict
    says: str
    fix: str = ""
    """Empty where nothing is to be done."""


def fine(about: str, says: str) -> Finding:
    """Nothing to be done."""
    return Finding(about, Verdict.FINE, says)


def odd(about: str, says: str, fix: str) -> Finding:
    """Perhaps something to be done."""
    return Finding(about, Verdict.ODD, says, fix)


def wrong(about: str, says: str, fix: str) -> Finding:
    """Something to be done."""
    return Finding(about, Verdict.WRONG, says, fix)
