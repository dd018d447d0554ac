"""A finding of a check: one fact, whether it is met, and the next thing to try if it is not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact that a check has looked at. `fix`: the next thing to try; shown if the fact is not met."""

    met: bool
    what: str
    fix: str = ""


class EvidenceError(Exception):
    """Evidence that cannot be read. The check ends, and the text and the fix become its last finding."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.finding = Finding(met=False, what=what, fix=fix)
