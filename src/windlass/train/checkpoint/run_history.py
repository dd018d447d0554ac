"""Counts training time and failures of a run over all its starts; manifests of checkpoints keep the counts. Pure."""

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
        """Return the entry for the manifest of a save, `seconds` after this start.

        `leaves`: whether the run ends cleanly after the save.
        """
        entry = {"failures": self.failures, "trained": self.trained + seconds, "generation": self.generation}
        return {_KEY: {**entry, "leaves": leaves}}


def continue_history(facts: Mapping[str, Any], generation: int) -> RunHistory:
    """Return the history of a run that resumes from a checkpoint; `facts`: of its manifest.

    Counts one failure for each start of the job since the one that saved the checkpoint, and at least one. A run that
    ended cleanly after the save adds none.
    """
    entry = facts.get(_KEY)
    if not isinstance(entry, Mapping):
        return RunHistory(generation=generation)
    failures, trained = int(entry.get("failures", 0)), float(entry.get("trained", 0.0))
    if not entry.get("leaves"):
        failures += max(1, generation - int(entry.get("generation", generation)))
    return RunHistory(failures, trained, generation)
