"""A schedule as its user writes it, and its durable state. Times and durations are milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ConcurrencyPolicy(StrEnum):
    """Effect of a due time on a schedule whose previous run has not ended."""

    SKIP = "skip"
    """The time passes without a run."""
    QUEUE = "queue"
    """The run starts when the previous one has ended. One run waits at a time; further times are skipped."""
    REPLACE = "replace"
    """The previous run is cancelled, and the new one starts when it has ended."""


UTC = "UTC"
KEPT_SUCCEEDED, KEPT_FAILED = 3, 1
"""Ended runs that are kept by default, as by a CronJob."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a job is submitted again."""

    cron: str
    """Five fields: minute, hour, day of the month, month, day of the week."""
    time_zone: str = UTC
    """A name of the IANA time zone database."""
    policy: ConcurrencyPolicy = ConcurrencyPolicy.SKIP
    starting_deadline: int | None = None
    """A run that cannot start for this long after its time is missed. None: no limit."""
    kept_succeeded: int = KEPT_SUCCEEDED
    kept_failed: int = KEPT_FAILED


class NoteKind(StrEnum):
    """Outcome of one or several due times."""

    STARTED = "Started"
    MISSED = "Missed"
    SKIPPED = "Skipped"
    WAITING = "Waiting"
    REFUSED = "Refused"


@dataclass(frozen=True, slots=True)
class ScheduleNote:
    """One line of a schedule's history."""

    at: int
    kind: NoteKind
    message: str


MAX_NOTES = 20
"""Notes that are kept of one schedule."""


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """The durable state of a schedule."""

    considered: int
    """Every due time up to this one has been decided; at first the time of the schedule's creation."""
    suspended: bool = False
    waiting: int | None = None
    """Due time of the run that starts when the previous one has ended."""
    last_run: int | None = None
    """Due time of the last run that was started."""
    missed: int = 0
    skipped: int = 0
    notes: tuple[ScheduleNote, ...] = ()
    """The latest, oldest first."""
