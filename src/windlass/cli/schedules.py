"""Schedules as rows of a listing and as details."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from windlass.cli.terminal.formatting import format_duration, join_lines, shorten
from windlass.cli.terminal.output import Column, Listing

Row = dict[str, Any]


def _state(row: Row) -> str:
    return "Suspended" if row["suspended"] else "Active" if row["active"] else "Scheduled"


def _count(number: int | None) -> str:
    """A number; "-" where it is not counted: Kubernetes does not."""
    return "-" if number is None else str(number)


def _time(at: int | None, row: Row) -> str:
    """A time in the zone of the schedule, in UTC where this machine lacks the zone."""
    from windlass.jobs.schedules.cron_times import format_time, read_time_zone  # noqa: PLC0415 - few listings have times

    try:
        zone = read_time_zone(row["time_zone"])
    except ValueError:
        zone = "UTC"
    return "-" if at is None else format_time(at, zone)


_COLOURS = {"Suspended": "magenta", "Active": "green", "Scheduled": "cyan"}

SCHEDULES = Listing(
    (
        Column("SCHEDULE", lambda row: row["name"]),
        Column("CRON", lambda row: row["cron"]),
        Column("ZONE", lambda row: row["time_zone"]),
        Column("POLICY", lambda row: row["policy"], wide=True),
        Column("STATE", _state, style=lambda row: _COLOURS[_state(row)]),
        Column("NEXT", lambda row: _time(row["next"], row)),
        Column("LAST", lambda row: _time(row["last_run"], row)),
        Column("MISSED", lambda row: _count(row["missed"]), right=True),
        Column("SKIPPED", lambda row: _count(row["skipped"]), right=True),
        Column("RUNS", lambda row: shorten(row["active"])),
    ),
    key="name",
    empty="there is no schedule; make one with: windlass submit --cron",
)


def schedule_lines(row: Row) -> Iterator[str]:
    """The state of a schedule, its limits and its history, with times in its zone."""
    yield f"{row['name']}: {_state(row)}, {row['cron']} ({row['time_zone']})"
    if row["suspended"]:
        yield f"  next run: none while it is suspended; windlass resume {row['name']}"
    else:
        yield f"  next run: {_time(row['next'], row)}"
    yield f"  while a run is active: {row['policy']}"
    if row["starting_deadline"] is not None:
        yield f"  starting deadline: {format_duration(row['starting_deadline'])}"
    yield f"  kept: {row['kept_succeeded']} succeeded and {row['kept_failed']} failed runs"
    yield f"  active: {shorten(row['active']) or 'no run'}"
    if row["waiting"] is not None:
        yield f"  waiting for the end of the active run: the run of {_time(row['waiting'], row)}"
    if row["missed"] is not None:
        yield f"  missed {row['missed']}, skipped {row['skipped']}"
    for each in row["notes"]:
        yield f"  {_time(each['at'], row)} {each['kind']}: {join_lines(each['message'])}"
