"""Entries of history. They are frozen, because a thread writes them beside the loop that made them."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.backends.port import Transition
from windlass.core.model.status import JobState
from windlass.server.operator.pod_tasks import PodTask


@dataclass(frozen=True, slots=True)
class TransitionEntry:
    """A transition of a job. Its id and its creation time name the job: a later job may have the same id."""

    created_at: int
    transition: Transition


@dataclass(frozen=True, slots=True)
class MemberEntry:
    """A pod at the time of a commit of its gang."""

    created_at: int
    task: PodTask


@dataclass(frozen=True, slots=True)
class LogEntry:
    """The last lines of a pod's log. `missing`: reason why there are none."""

    created_at: int
    job_id: str
    generation: int
    rank: int
    text: str
    missing: str = ""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """Records that are written in one transaction."""

    transitions: tuple[TransitionEntry, ...] = ()
    ended: tuple[JobState, ...] = ()
    """Final states of jobs."""
    members: tuple[MemberEntry, ...] = ()
    lines: tuple[LogEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredLog:
    """The last lines of a pod's log as the API returns them."""

    generation: int
    rank: int
    role: str
    replica: int
    pod: str
    node: str
    text: str
    missing: str


@dataclass(frozen=True, slots=True)
class RecordedStay:
    """One attempt of a job on a node: the number of its pods there, and of those that failed."""

    job_id: str
    created_at: int
    generation: int
    pods: int
    failed: int
