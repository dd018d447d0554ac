"""What a run has been through, kept in the facts of its checkpoints: time trained, and how often it failed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_FACT = "history"


@dataclass(frozen=True, slots=True)
class History:
    """Over all starts of a run, up to this one."""

    failures: int = 0
    trained: float = 0.0
    """Seconds."""
    generation: int = 1
    """Which start of the job this is."""

    def facts(self, seconds: float, *, leaves: bool) -> dict[str, Any]:
        """For what is saved `seconds` after this start; `leaves`: and then the run ends in good order."""
        told = {"failures": self.failures, "trained": self.trained + seconds, "generation": self.generation}
        return {_FACT: {**told, "leaves": leaves}}


def begun(facts: Mapping[str, Any], generation: int) -> History:
    """That of a run that goes on from a checkpoint with these facts.

    Where the checkpoint is not one that was saved before leaving, something failed after it; and once more for each
    start of the job since that came to none.
    """
    told = facts.get(_FACT)
    if not isinstance(told, Mapping):
        return History(generation=generation)
    failures, trained = int(told.get("failures", 0)), float(told.get("trained", 0.0))
    if not told.get("leaves"):
        failures += max(1, generation - int(told.get("generation", generation)))
    return History(failures, trained, generation)
