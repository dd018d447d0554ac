"""The durable state of a CronTrainingJob: one text in `status.windlass.state`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from windlass.jobs.kubernetes.bounded_integers import MAX_COUNT, MAX_TIME_MS, require_integer
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.schedules.schedule import MAX_NOTES, Schedule, ScheduleStatus

FIELD = "windlass"
"""Below `status`."""
MAX_MESSAGE = 1_000
"""Characters of a note, and of what the API server has answered: a refusal may quote a whole template."""


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """State of a schedule as it was last written."""

    status: ScheduleStatus
    times: str
    """Expression and time zone by which `status` was decided: another one decides nothing about the past."""
    starting: int | None = None
    """Due time of a run that is decided and that may not exist yet."""


_decode = msgspec.json.Decoder(StoredSchedule).decode


def times_of(schedule: Schedule) -> str:
    """The expression and the time zone of a schedule, as `StoredSchedule.times` has them."""
    return f"{schedule.cron} {schedule.time_zone}"


def new_state(schedule: Schedule, now: int) -> StoredSchedule:
    """The state of a schedule of which nothing is due before `now`."""
    return StoredSchedule(ScheduleStatus(considered=now), times_of(schedule))


def state_text(stored: StoredSchedule) -> str:
    """The text of a state."""
    return msgspec.json.encode(stored).decode()


def read_state(manifest: Manifest) -> StoredSchedule | None:
    """The state in an object; None without one. Raises ValueError for a text that no operator writes."""
    status: Any = manifest.get("status")
    found = (status if isinstance(status, dict) else {}).get(FIELD)
    if found is None:
        return None
    try:
        stored = _decode(found["state"])
    except (msgspec.MsgspecError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    _check(stored)
    notes = tuple(replace(each, message=each.message[:MAX_MESSAGE]) for each in stored.status.notes[-MAX_NOTES:])
    return replace(stored, status=replace(stored.status, notes=notes))


def _check(stored: StoredSchedule) -> None:
    """Raises ValueError for numbers out of range."""
    status = stored.status
    times = (status.considered, status.waiting, status.last_run, stored.starting, *(each.at for each in status.notes))
    for time in times:
        require_integer(0 if time is None else time, 0, MAX_TIME_MS)
    for count in (status.missed, status.skipped):
        require_integer(count, 0, MAX_COUNT)
