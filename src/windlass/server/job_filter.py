"""Filters of job listings and of history, the same with and without a controller."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from windlass.core.model.status import CANCELLED, TERMINAL, JobState, Phase, state_name
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.job_lines import FIELDS, FIELDS_ON_REQUEST

_DEFAULT_LIMIT = 1_000
_MAX_DIGITS = 18
"""Maximum digits of a number in a request: the database takes 64 bits."""
_ENDED_STATES = frozenset(phase.value for phase in TERMINAL) | {CANCELLED}


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Accepted values of job listings; an empty collection accepts any."""

    states: frozenset[str]
    """Phases, and "Cancelled"."""
    fields: tuple[tuple[str, frozenset[str]], ...]
    """For each of "name", "user" and "queue" that is limited."""
    ended: bool
    """Whether ended jobs are listed too."""
    namespace: str = ""
    """Namespace of a cluster's jobs; empty: all."""
    visible: frozenset[str] | None = None
    """Namespaces whose jobs may be listed; None: all."""

    def has(self, state: JobState) -> bool:
        """Whether the job matches, ended or not."""
        if self.namespace and not is_in_namespace(state.id, self.namespace):
            return False
        if self.visible is not None and not is_visible(state.id, self.visible):
            return False
        return all(getattr(state.job, key) in accepted for key, accepted in self.fields) and (
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
        return {"phases": phases, "failed_for": {CANCELLED} if cancelled else (), **where, **dict(self.fields)}


@dataclass(frozen=True, slots=True)
class JobListing:
    """A part of a job listing."""

    jobs: JobFilter
    search: str = ""
    """Text in the id, the user or the queue of a job, in any case; empty: any job."""
    offset: int = 0
    limit: int = _DEFAULT_LIMIT
    progress: bool = False
    """Whether the training progress of jobs that hold nodes is added."""
    fields: tuple[str, ...] = tuple(FIELDS)
    """Fields of each line."""
    last_nodes: bool = False
    """Whether the nodes of their last attempt are added to ended jobs."""

    def has(self, state: JobState) -> bool:
        """Whether the job matches filter and search."""
        texts = state.id, state.job.user, state.job.queue
        return self.jobs.has(state) and (not self.search or any(self.search in text.casefold() for text in texts))


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Choice of ended jobs; an empty text accepts any value."""

    name: str = ""
    user: str = ""
    since: int = 0
    """Earliest end of a job, in ms."""
    limit: int = _DEFAULT_LIMIT
    namespace: str = ""
    """Namespace of a cluster's jobs; empty: all."""
    visible: frozenset[str] | None = None
    """Namespaces whose jobs may be listed; None: all."""


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
    return JobFilter(states, tuple(given.items()), ended, str(filters.get("namespace") or ""))


def parse_listing(filters: Mapping[str, str], visible: frozenset[str] | None = None) -> JobListing:
    """Filters: those of `parse_filter`, search, offset, limit, progress, fields and last_nodes. Raises ApiError."""
    return JobListing(
        replace(parse_filter(filters), visible=visible),
        filters.get("search", "").casefold(),
        _number(filters, "offset", 0),
        _number(filters, "limit", _DEFAULT_LIMIT),
        bool(filters.get("progress")),
        parse_fields(filters.get("fields", "")),
        bool(filters.get("last_nodes")),
    )


def parse_fields(text: str) -> tuple[str, ...]:
    """Names of fields by commas; without any, those of every line. Raises ApiError for an unknown one."""
    names = tuple(text.split(",")) if text else tuple(FIELDS)
    if unknown := [name for name in names if name not in FIELDS and name not in FIELDS_ON_REQUEST]:
        known = ", ".join((*FIELDS, *FIELDS_ON_REQUEST))
        raise ApiError(ErrorCode.BAD_REQUEST, f"no field of a job is named {unknown[0][:40]!r}", f"fields: {known}")
    return names


def parse_history(filters: Mapping[str, str], visible: frozenset[str] | None = None) -> HistoryFilter:
    """Filters: name, user, since (ms), limit and namespace. Raises ApiError."""
    texts = {key: filters.get(key, "") for key in ("name", "user", "namespace")}
    since, limit = _number(filters, "since", 0), _number(filters, "limit", _DEFAULT_LIMIT)
    return HistoryFilter(**texts, since=since, limit=limit, visible=visible)


def _number(filters: Mapping[str, str], key: str, default: int) -> int:
    text = filters.get(key, str(default))
    if not text.isdecimal() or len(text) > _MAX_DIGITS:
        raise ApiError(ErrorCode.BAD_REQUEST, f"{key} is a number, not {text[:40]!r}")
    return int(text)
