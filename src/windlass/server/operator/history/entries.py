"""What history hears: frozen, so that it may be written beside the loop that made it."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.backends.port import Transition
from windlass.core.model.status import JobState
from windlass.server.operator.pod_tasks import PodTask


@dataclass(frozen=True, slots=True)
class TransitionEntry:
    """A transition, of the job of this id that was created then; another of the same id was created at another time."""

    created_at: int
    transition: Transition


@dataclass(frozen=True, slots=True)
class MemberEntry:
    """A pod as it was when something happened to its gang."""

    created_at: int
    task: PodTask


@dataclass(frozen=True, slots=True)
class LogEntry:
    """The end of a member's log. `missing` says why there is none."""

    created_at: int
    job_id: str
    generation: int
    rank: int
    text: str
    missing: str = ""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """What is written in one go."""

    transitions: tuple[TransitionEntry, ...] = ()
    ended: tuple[JobState, ...] = ()
    """Jobs as they were at last."""
    members: tuple[MemberEntry, ...] = ()
    lines: tuple[LogEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredLog:
    """The end of a member's log, as it is told."""

    generation: int
    rank: int
    role: str
    replica: int
    pod: str
    node: str
    text: str
    missing: str
