"""The verbs `queue`, `nodes` and `history`, which print listings."""

from __future__ import annotations

import functools
import time
from typing import Annotated, Any

import typer

from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.option_values import parse_duration_option
from windlass.cli.schedules import SCHEDULES
from windlass.cli.target import controller_client, job_source, uses_color, warn_if_offline
from windlass.cli.target_options import NamespaceOption, NoColorOption, OnOption, StateOption
from windlass.cli.terminal.formatting import (
    format_duration,
    format_resources,
    format_start,
    format_time,
    join_lines,
    reason_text,
    shorten,
    state_name,
)
from windlass.cli.terminal.output import Column, Format, FormatOption, Listing, WatchOption, watch_rows
from windlass.core.model.resources import format_readable

Row = dict[str, Any]
_COLOURS = {
    "Running": "green",
    "Admitted": "cyan",
    "Restarting": "yellow",
    "Suspended": "magenta",
    "Failed": "red",
    "Cancelled": "yellow",
    "Succeeded": "green",
}

_STATES = ("Created", "Queued", *_COLOURS)

NameOption = Annotated[str, typer.Option("--name", help="Only jobs of this name.")]
UserOption = Annotated[str, typer.Option("-u", "--user", help="Only jobs of this user.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="Maximum number of rows.")]


def _colour(row: Row) -> str:
    return _COLOURS.get(state_name(row), "")


def _time_in_state(row: Row) -> str:
    """Returns the time since the job runs or waits; after a preemption, since it waits again."""
    waits = max(row["queued_at"] or row["created_at"], row["stopped_at"] or 0)
    return format_duration(int(time.time() * 1000) - (row["running_since"] or waits))


def _gang(row: Row) -> str:
    """Returns replicas × ranks of each: "4×2"; of an elastic job its range and current size: "1–4×2, now 3"."""
    ranks = row["ranks"] // max(1, row["replicas"])
    if not row["elastic"]:
        return f"{row['replicas']}×{ranks}"
    least, most = row["elastic"]
    return f"{least}–{most}×{ranks}" + (f", now {row['replicas']}" if row["nodes"] else "")


def _nodes_or_reason(row: Row) -> str:
    return shorten(row["nodes"]) or reason_text(row, token=False)


_QUEUE = Listing(
    (
        Column("JOB", lambda row: row["id"]),
        Column("USER", lambda row: row["user"], wide=True),
        Column("QUEUE", lambda row: row["queue"]),
        Column("PRIO", lambda row: str(row["priority"]), right=True),
        Column("STATE", state_name, style=_colour),
        Column("FOR", _time_in_state, right=True),
        Column("GANG", _gang),
        Column("REQUESTS", lambda row: format_resources(row["request"]), wide=True),
        Column("ATTEMPT", lambda row: str(row["attempts"]), right=True),
        Column("POS", lambda row: str(row["position"] or "-"), right=True),
        Column("STARTS", lambda row: format_start(row["eta"], row["certainty"]), wide=True),
        Column("REASON", lambda row: row["reason"], wide=True),
        Column("NODES (WHY)", _nodes_or_reason),
    ),
    key="id",
    empty="no job waits or runs",
)

_MAX_VERDICT = 100
"""Characters of a verdict in a listing; `status` and `doctor` print all of it."""


def _verdict(row: Row) -> str:
    """Returns the verdict on the last attempt; "" without a known cause."""
    cause = row.get("diagnosis") or {}
    text = join_lines(cause["text"]) if cause.get("rule") else ""
    return text if len(text) <= _MAX_VERDICT else text[: _MAX_VERDICT - 1] + "…"


_HISTORY = Listing(
    (
        Column("JOB", lambda row: row["id"]),
        Column("USER", lambda row: row["user"], wide=True),
        Column("QUEUE", lambda row: row["queue"], wide=True),
        Column("STATE", state_name, style=_colour),
        Column("EXIT", lambda row: "-" if row["exit_code"] is None else str(row["exit_code"]), right=True),
        Column("SUBMITTED", lambda row: format_time(row["created_at"])),
        Column("ENDED", lambda row: format_time(row["finished_at"])),
        Column(
            "WAITED", lambda row: format_duration(row["finished_at"] - row["created_at"] - row["run_time"]), right=True
        ),
        Column("RAN", lambda row: format_duration(row["run_time"] if row["attempts"] else None), right=True),
        Column("ATTEMPTS", lambda row: str(row["attempts"]), right=True),
        Column("REQUESTED", lambda row: format_resources(row["request"]), wide=True),
        Column("REASON", lambda row: row["reason"]),
        Column("VERDICT", _verdict),
        Column("MESSAGE", lambda row: row["message"], wide=True),
    ),
    key="id",
    empty="no job has ended yet",
)


def _gpus(row: Row) -> str:
    """Returns used/all GPUs, fractional on nodes with shared GPUs: "1.7/2"; then MIG instances in use by profile."""
    capacity, used = row["capacity"], row["used"]
    if "gpu-milli" in capacity:
        return f"{used['gpu-milli'] / 1000:g}/{capacity['gpu']}"
    parts = [
        f"{count}×{name.removeprefix('mig-')}" for name, count in used.items() if name.startswith("mig-") and count
    ]
    return " ".join([_use(row, "gpu"), *parts])


def _use(row: Row, resource: str) -> str:
    capacity = row["capacity"].get(resource, 0)
    return (
        f"{format_readable(resource, row['used'].get(resource, 0))}/{format_readable(resource, capacity)}"
        if capacity
        else "-"
    )


def _format_reservation(row: Row) -> str:
    """Returns the current reservation: "maintenance until 18:00:00 (repair)", or ""."""
    if row["state"] not in ("reserved", "maintenance"):
        return ""
    first = row["reservations"][0]
    return f"{row['state']} until {format_time(first['end'])} ({first['name']})"


def _upcoming_reservations(row: Row) -> str:
    """Returns the reservations that have not begun, with their times."""
    later = row["reservations"][_format_reservation(row) != "" :]
    return ", ".join(f"{each['name']} {format_time(each['start'])} to {format_time(each['end'])}" for each in later)


_NODES = Listing(
    (
        Column("NODE", lambda row: row["name"]),
        Column(
            "STATE",
            lambda row: row["cordoned"] or _format_reservation(row) or row["state"],
            style=lambda row: {"ready": "", "reserved": "cyan", "maintenance": "yellow"}.get(row["state"], "red"),
        ),
        Column("GPU", _gpus, right=True),
        Column("CPU", lambda row: _use(row, "cpu"), right=True),
        Column("MEMORY", lambda row: _use(row, "memory"), right=True),
        Column("JOBS", lambda row: shorten([job["id"] for job in row["jobs"]])),
        Column("RESERVED", _upcoming_reservations, wide=True),
        Column("LABELS", lambda row: ",".join(f"{name}={value}" for name, value in row["labels"].items()), wide=True),
        Column(
            "TAINTS", lambda row: ",".join(f"{t['key']}={t['value']}:{t['effect']}" for t in row["taints"]), wide=True
        ),
    ),
    key="name",
    empty="there are no nodes",
)


def queue(
    every: Annotated[bool, typer.Option("-a", "--all", help="Include jobs that have ended.")] = False,
    phase: Annotated[
        str, typer.Option("--phase", help="Only these states: Queued,Running,…; for final states -a is not needed.")
    ] = "",
    name: NameOption = "",
    user: UserOption = "",
    in_queue: Annotated[str, typer.Option("--queue", help="Only jobs of this queue.")] = "",
    schedules: Annotated[bool, typer.Option("--schedules", help="List schedules (--cron) instead of jobs.")] = False,
    limit: LimitOption = 1_000,
    output: FormatOption = Format.TABLE,
    watch: WatchOption = False,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """List jobs that wait or run: jobs that hold nodes first, then waiting jobs in queue order."""
    _check_states(phase)
    source = job_source(on, namespace, state)
    warn_if_offline(source)
    if schedules:
        watch_rows(SCHEDULES, source.schedules, output, again=watch, paint=uses_color(no_color=no_color))
        return ExitCode.OK
    filters = {"all": every or "", "phase": phase, "name": name, "user": user, "queue": in_queue, "limit": limit}
    read = functools.partial(source.jobs, **filters)
    watch_rows(_QUEUE, read, output, again=watch, paint=uses_color(no_color=no_color), limit=limit)
    return ExitCode.OK


def _check_states(phases: str) -> None:
    """Raises UsageError for an unknown state, which would match no job."""
    from windlass.jobs.syntax.names import did_you_mean  # noqa: PLC0415 - rarely needed

    for phase in phases.split(",") if phases else ():
        if phase not in _STATES:
            raise UsageError(f"--phase: there is no state {phase[:40]!r}{did_you_mean(phase, _STATES)}")


def nodes(
    output: FormatOption = Format.TABLE,
    watch: WatchOption = False,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """List nodes, their capacity and the jobs on them."""
    client = controller_client(on, namespace, state)
    watch_rows(_NODES, client.nodes, output, again=watch, paint=uses_color(no_color=no_color))
    return ExitCode.OK


def history(
    name: NameOption = "",
    user: UserOption = "",
    since: Annotated[
        str, typer.Option("--since", metavar="DURATION", help="Only jobs that ended within the last 2h, 7d, …")
    ] = "",
    limit: LimitOption = 100,
    output: FormatOption = Format.TABLE,
    watch: WatchOption = False,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """List jobs that have ended, latest first. Needs no daemon."""
    earliest = int(time.time() * 1000) - parse_duration_option("--since", since) if since else 0
    source = job_source(on, namespace, state)
    read = functools.partial(source.history, name=name, user=user, since=earliest, limit=limit)
    watch_rows(_HISTORY, read, output, again=watch, paint=uses_color(no_color=no_color), limit=limit)
    return ExitCode.OK
