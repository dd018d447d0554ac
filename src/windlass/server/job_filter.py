"""Filter of job listings, the same with and without a controller."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from windlass.core.model.status import CANCELLED, TERMINAL, JobState, Phase, state_name

_ENDED_STATES = frozenset(phase.value for phase in TERMINAL) | {CANCELLED}


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Accepted values of job listings; an empty collection accepts any."""

    states: frozenset[str]
    """Phases, and "Cancelled"."""
    fields: Mapping[str, frozenset[str]]
    """By "name", "user" and "queue"."""
    ended: bool
    """Whether ended jobs are listed too."""
    namespace: str = ""
    """Namespace of a cluster's jobs; empty: all."""
    visible: frozenset[str] | None = None
    """Namespaces whose jobs may be listed; None: all."""

    def has(self, state: JobState) -> bool:
        """Whether the job matches, ended or not."""
        job = state.job
        if not is_in_namespace(state.id, self.namespace) or not is_visible(state.id, self.visible):
            return False
        values = {"name": job.name, "user": job.user, "queue": job.queue}
        return all(values[key] in accepted for key, accepted in self.fields.items()) and (
            not self.states or not self.states.isdisjoint((state.status.phase.value, state_name(state.status)))
        )

    def query(self, among: Collection[Phase]) -> dict[str, Any] | None:
        """Arguments of `StateReader.jobs` for the matching jobs of some phases; None if no job can match."""
        phases = {phase for phase in among if not self.states or phase.value in self.states}
        cancelled = CANCELLED in self.states and Phase.FAILED in among
        if not phases and not cancelled:
            return None
        where: dict[str, Any] = {"namespace": self.namespace} if self.namespace else {}
        where |= {} if self.visible is None else {"visible": self.visible}
        return {"phases": phases, "failed_for": {CANCELLED} if cancelled else (), **where, **self.fields}


def is_in_namespace(job_id: str, namespace: str) -> bool:
    """Whether the id of a cluster's job begins with the namespace; an empty one has all jobs."""
    return not namespace or job_id.startswith(f"{namespace}/")


def is_visible(job_id: str, visible: Collection[str] | None) -> bool:
    """Whether the id of a cluster's job begins with one of the namespaces; None has all jobs."""
    return visible is None or job_id.partition("/")[0] in visible


def parse_filter(filters: Mapping[str, Any]) -> JobFilter:
    """Filters: phase, name, user, queue, several values by commas, and namespace.

    `all` or a final phase selects ended jobs too.
    """
    keys = [key for key in ("phase", "name", "user", "queue") if filters.get(key)]
    given = {key: frozenset(str(filters[key]).split(",")) for key in keys}
    states = given.pop("phase", frozenset())
    ended = bool(filters.get("all")) or not states.isdisjoint(_ENDED_STATES)
    return JobFilter(states, given, ended, str(filters.get("namespace") or ""))
