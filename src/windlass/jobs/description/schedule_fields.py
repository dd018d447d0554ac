# ruff: noqa: TRY004 - a value of a file is wrong; TypeError is for programmers
"""The fields of a job that is submitted again at the times of a cron expression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.jobs.errors import FieldPath
from windlass.jobs.schedules.schedule import KEPT_FAILED, KEPT_SUCCEEDED, UTC, ConcurrencyPolicy, Schedule
from windlass.jobs.syntax import value_types
from windlass.jobs.syntax.field import Field, Table
from windlass.jobs.syntax.value_types import Plain, ValueType, choice, show, whole

MAX_KEPT = 1000
"""Ended runs that one schedule may keep."""


def _read_cron(value: Plain) -> str:
    from windlass.jobs.schedules.cron_times import read_cron  # noqa: PLC0415 - few jobs have a schedule

    if not isinstance(value, str):
        raise ValueError(f'expects a cron expression such as "0 3 * * *", not {show(value)}')
    return read_cron(value)


def _read_zone(value: Plain) -> str:
    from windlass.jobs.schedules.cron_times import read_time_zone  # noqa: PLC0415 - as above

    return read_time_zone(value if isinstance(value, str) else show(value))


_CRON = ValueType("cron expression", {"type": "string", "minLength": 6, "maxLength": 200}, _read_cron, str)
_ZONE = ValueType("name of a time zone", {"type": "string", "minLength": 1}, _read_zone, str)

SCHEDULE: Table = (
    Field(
        "cron",
        "Submits the job again at these times: minute, hour, day of the month, month and day of the week, or @hourly, "
        "@daily, @weekly, @monthly, @yearly.",
        _CRON,
        default="null (the job is submitted once)",
        example='"0 3 * * *"',
        flags=("--cron",),
        nullable=True,
        foreign_names=("schedule", "crontab"),
    ),
    Field(
        "time_zone",
        "Time zone of cron.",
        _ZONE,
        default=UTC,
        example="Europe/Berlin",
        flags=("--time-zone",),
        foreign_names=("timezone", "timeZone", "tz"),
    ),
    Field(
        "cron_policy",
        "At a time when the previous run has not ended. skip: no run. queue: the run starts when the previous one has "
        "ended; one waits at a time. replace: the previous one is cancelled first.",
        choice([str(policy) for policy in ConcurrencyPolicy]),
        default=str(ConcurrencyPolicy.SKIP),
        example="queue",
        flags=("--cron-policy",),
        foreign_names=("concurrency_policy", "concurrencyPolicy"),
    ),
    Field(
        "cron_deadline",
        "A run that cannot start for this long after its time is missed, for example while the daemon is down. Of "
        "several missed runs only the latest is made up for.",
        value_types.LIMIT,
        default="null (no limit)",
        example="10m",
        flags=("--cron-deadline",),
        nullable=True,
        foreign_names=("starting_deadline", "startingDeadlineSeconds"),
    ),
    Field(
        "cron_keep",
        "Succeeded runs that are kept; older ones are removed with their logs.",
        whole(0, MAX_KEPT),
        default=str(KEPT_SUCCEEDED),
        example="10",
        flags=("--cron-keep",),
        foreign_names=("successfulJobsHistoryLimit",),
    ),
    Field(
        "cron_keep_failed",
        "Failed and cancelled runs that are kept.",
        whole(0, MAX_KEPT),
        default=str(KEPT_FAILED),
        example="5",
        flags=("--cron-keep-failed",),
        foreign_names=("failedJobsHistoryLimit",),
    ),
)
"""Fields of `Schedule`, by their names in files."""

NAMES = tuple(field.name for field in SCHEDULE)


def check_schedule(values: Mapping[str, Any]) -> Iterator[tuple[FieldPath, str]]:
    """Faults between the fields of a schedule and others: (field, message)."""
    if values.get("cron"):
        if values.get("after"):
            yield ("after",), "after names jobs of today, and cron repeats this one; keep one of them"
        return
    for name in NAMES[1:]:
        if name in values:
            yield (name,), f"{name} is for a job with cron; add cron, or leave it out"


def read_schedule(values: Mapping[str, Any]) -> Schedule | None:
    """The schedule of a job's fields; None without cron."""
    if not values.get("cron"):
        return None
    return Schedule(
        values["cron"],
        values.get("time_zone", UTC),
        ConcurrencyPolicy(values.get("cron_policy", ConcurrencyPolicy.SKIP)),
        values.get("cron_deadline"),
        values.get("cron_keep", KEPT_SUCCEEDED),
        values.get("cron_keep_failed", KEPT_FAILED),
    )


def schedule_values(schedule: Schedule | None) -> dict[str, Any]:
    """The fields of a schedule; none without one. Inverse of `read_schedule`."""
    if schedule is None:
        return {}
    return {
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "cron_policy": schedule.policy,
        "cron_deadline": schedule.starting_deadline,
        "cron_keep": schedule.kept_succeeded,
        "cron_keep_failed": schedule.kept_failed,
    }
