"""One fault that a rule finds: its place, its message, and a replacement that mends it where that is safe."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from windlass.jobs.errors import Place


class RuleSeverity(StrEnum):
    """RuleSeverity of a rule's findings. Only errors stop a submission."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Hit:
    """One fault within a document. `replacement` is the new text of the characters at `place`; None if unsafe."""

    place: Place
    message: str
    replacement: str | None = None
    fix: str = ""
    """The fix of this fault; "" if that of its rule says it."""


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One fault of a file."""

    source: str
    place: Place
    rule: str
    severity: RuleSeverity
    message: str
    why: str
    fix: str
    link: str
    replacement: str | None = None
