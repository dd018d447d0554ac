"""Decides which run of a schedule is due at `now`.

At most one run starts for all times that have passed since the last decision: the latest. Earlier ones are missed, and
so is the latest after the starting deadline. While a run is active, the concurrency policy decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from windlass.jobs.schedules.cron_times import count_times, format_time, last_time, next_time
from windlass.jobs.schedules.schedule import (
    MAX_NOTES,
    ConcurrencyPolicy,
    NoteKind,
    Schedule,
    ScheduleNote,
    ScheduleStatus,
)

MAX_COUNTED = 100
"""Missed times are counted up to this number."""
_MAX_LEAD_MS = 3_600_000
"""A decision that is further ahead of the clock was made by a wrong clock, and is not believed."""


@dataclass(frozen=True, slots=True)
class DueDecision:
    """Consequence of the time that has passed. `status` must be durable together with the run that starts."""

    status: ScheduleStatus
    start: int | None = None
    """Due time of the run to start."""
    stops_active: bool = False
    """Whether the active run is to be cancelled."""


def decide(schedule: Schedule, status: ScheduleStatus, *, is_active: bool, now: int) -> DueDecision:
    """The decision at `now`. `is_active`: a run of the schedule has not ended."""
    # 1. a clock that was far ahead does not silence the schedule
    if status.considered > now + _MAX_LEAD_MS:
        status = replace(status, considered=now)
    # 2. times that have passed: all but the latest are missed
    latest = last_time(schedule.cron, schedule.time_zone, status.considered, now)
    if status.suspended:
        return DueDecision(replace(status, considered=latest or status.considered, waiting=None))
    status = _drop_late(schedule, status, now)
    if latest is not None:
        status, latest = _pass_times(schedule, status, latest, now)
    # 3. the policy, while a run is active
    if is_active:
        status = status if latest is None else _meet_active(schedule, status, latest, now)
        stops = schedule.policy is ConcurrencyPolicy.REPLACE and status.waiting is not None
        return DueDecision(status, stops_active=stops)
    # 4. the run that waited goes first, unless it is replaced
    return _start(schedule, status, latest, now)


def suspend(schedule: Schedule, status: ScheduleStatus, *, is_active: bool, now: int) -> ScheduleStatus:
    """The status of a schedule that is suspended at `now`: runs that were due or waited are skipped."""
    decided = decide(schedule, status, is_active=is_active, now=now)
    suspended = replace(decided.status, suspended=True, waiting=None, last_run=status.last_run)
    for time in (decided.start, decided.status.waiting):
        if time is not None:
            suspended = _skip(schedule, suspended, time, now, "the schedule was suspended")
    return suspended


def next_due(schedule: Schedule, status: ScheduleStatus) -> int | None:
    """Time of the next decision that time alone makes necessary; None without one."""
    return next_time(schedule.cron, schedule.time_zone, status.considered)


def note(status: ScheduleStatus, at: int, kind: NoteKind, message: str) -> ScheduleStatus:
    """The status with one more line of history."""
    return replace(status, notes=(*status.notes, ScheduleNote(at, kind, message))[-MAX_NOTES:])


def _is_late(schedule: Schedule, time: int, now: int) -> bool:
    return schedule.starting_deadline is not None and now - time > schedule.starting_deadline


def _pass_times(schedule: Schedule, status: ScheduleStatus, latest: int, now: int) -> tuple[ScheduleStatus, int | None]:
    """Takes note of missed times. Returns the time that may still start."""
    since = status.considered
    missed = count_times(schedule.cron, schedule.time_zone, since, latest, MAX_COUNTED + 1) - 1
    status = replace(status, considered=latest)
    if missed:
        count = f"more than {MAX_COUNTED - 1}" if missed >= MAX_COUNTED else str(missed)
        first = next_time(schedule.cron, schedule.time_zone, since) or latest
        message = f"missed {count} since {format_time(first, schedule.time_zone)}; no controller ran"
        status = note(replace(status, missed=status.missed + missed), now, NoteKind.MISSED, message)
    if _is_late(schedule, latest, now):
        return _miss(schedule, status, latest, now), None
    return status, latest


def _miss(schedule: Schedule, status: ScheduleStatus, time: int, now: int) -> ScheduleStatus:
    message = f"{format_time(time, schedule.time_zone)} could not start within the starting deadline"
    return note(replace(status, missed=status.missed + 1), now, NoteKind.MISSED, message)


def _drop_late(schedule: Schedule, status: ScheduleStatus, now: int) -> ScheduleStatus:
    """Drops a waiting run whose starting deadline has passed."""
    if status.waiting is None or not _is_late(schedule, status.waiting, now):
        return status
    return _miss(schedule, replace(status, waiting=None), status.waiting, now)


def _skip(schedule: Schedule, status: ScheduleStatus, time: int, now: int, reason: str) -> ScheduleStatus:
    message = f"{format_time(time, schedule.time_zone)}: {reason}"
    return note(replace(status, skipped=status.skipped + 1), now, NoteKind.SKIPPED, message)


def _meet_active(schedule: Schedule, status: ScheduleStatus, time: int, now: int) -> ScheduleStatus:
    """Applies the policy to a time that is due while a run is active."""
    waiting = status.waiting
    if schedule.policy is ConcurrencyPolicy.SKIP:
        return _skip(schedule, status, time, now, "the previous run has not ended")
    if schedule.policy is ConcurrencyPolicy.QUEUE and waiting is not None:
        return _skip(schedule, status, time, now, "a run waits already")
    if waiting is not None:
        status = _skip(schedule, status, waiting, now, "replaced before it started")
    message = f"{format_time(time, schedule.time_zone)} waits for the end of the previous run"
    return note(replace(status, waiting=time), now, NoteKind.WAITING, message)


def _start(schedule: Schedule, status: ScheduleStatus, time: int | None, now: int) -> DueDecision:
    """Starts the run that waits or is due, while none is active."""
    waiting = status.waiting
    if waiting is not None and time is not None and schedule.policy is not ConcurrencyPolicy.QUEUE:
        status = _skip(schedule, status, waiting, now, "replaced before it started")
        waiting = None
    start = time if waiting is None else waiting
    if start is None:
        return DueDecision(status)
    left = time if waiting is not None else None
    return DueDecision(replace(status, waiting=left, last_run=start), start)
