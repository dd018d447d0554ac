"""The history of a run, kept in the facts of its checkpoints: training time and number of failures. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_KEY = "history"


@dataclass(frozen=True, slots=True)
class RunHistory:
    """Totals over all starts of a run, up to this one."""

    failures: int = 0
    trained: float = 0.0
    """Seconds of training."""
    generation: int = 1
    """Index of the job's start, from 1."""

    def facts(self, seconds: float, *, leaves: bool) -> dict[str, Any]:
        """Return the facts of a save `seconds` after this start. `leaves`: whether the run ends cleanly after it."""
        entry = {"failures": self.failures, "trained": self.trained + seconds, "generation": self.generation}
        return {_KEY: {**entry, "leaves": leaves}}


def continue_history(facts: Mapping[str, Any], generation: int) -> RunHistory:
    """Return the history of a run that resumes from a checkpoint with these facts.

    If the checkpoint was not saved before a clean exit, a failure followed it, and one more for each start of the job
    since then that saved nothing.
    """
    entry = facts.get(_KEY)
    if not isinstance(entry, Mapping):
        return RunHistory(generation=generation)
    failures, trained = int(entry.get("failures", 0)), float(entry.get("trained", 0.0))
    if not entry.get("leaves"):
        failures += max(1, generation - int(entry.get("generation", generation)))
    return RunHistory(failures, trained, generation)
