"""Which jobs a listing is of, as its filters say: the same with and without a controller."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from windlass.core.model.status import CANCELLED, TERMINAL, JobState, Phase, called

_ENDED_WORDS = frozenset(phase.value for phase in TERMINAL) | {CANCELLED}


@dataclass(frozen=True, slots=True)
class JobFilter:
    """What is wanted; an empty collection means any."""

    called: frozenset[str]
    """Phases, and "Cancelled"."""
    facts: Mapping[str, frozenset[str]]
    """By name, user and queue."""
    ended: bool
    """Those that have ended, too."""

    def has(self, state: JobState) -> bool:
        """Whether it is one of them, ended or not."""
        job = state.job
        said = {"name": job.name, "user": job.user, "queue": job.queue}
        return all(said[key] in wanted for key, wanted in self.facts.items()) and (
            not self.called or not self.called.isdisjoint((state.status.phase.value, called(state.status)))
        )

    def query(self, among: Collection[Phase]) -> dict[str, Any] | None:
        """The same of those in some phases, as `Records.jobs` is asked for it; None: there can be none."""
        phases = {phase for phase in among if not self.called or phase.value in self.called}
        cancelled = CANCELLED in self.called and Phase.FAILED in among
        if not phases and not cancelled:
            return None
        return {"phases": phases, "failed_for": {CANCELLED} if cancelled else (), **self.facts}


def parse_filter(filters: Mapping[str, Any]) -> JobFilter:
    """Filters: phase, name, user, queue (several by commas). With `all`, or a phase that is an end, ended ones too."""
    keys = [key for key in ("phase", "name", "user", "queue") if filters.get(key)]
    given = {key: frozenset(str(filters[key]).split(",")) for key in keys}
    called = given.pop("phase", frozenset())
    return JobFilter(called, given, bool(filters.get("all")) or not called.isdisjoint(_ENDED_WORDS))
