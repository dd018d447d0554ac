"""`windlass top`: prints the progress of running jobs, or of the ranks of one job."""

from __future__ import annotations

import functools
import sys
import time
from typing import Annotated, Any

import typer

from windlass.cli.completion import complete_job_names
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.named_job import read_job
from windlass.cli.target import RecordSource, record_source, uses_color, warn_if_offline
from windlass.cli.target_options import NamespaceOption, NoColorOption, OnOption, StateOption
from windlass.cli.terminal.formatting import format_duration, shorten, state_name
from windlass.cli.terminal.output import Column, Format, FormatOption, Listing, watch_rows
from windlass.cli.training_progress import format_loss, format_pace, format_rate, format_steps
from windlass.core.model.resources import format_readable

Row = dict[str, Any]
_RUNNING = "Admitted,Running,Restarting"


def _age(at: int | None) -> str:
    return "-" if at is None else format_duration(int(time.time() * 1000) - at)


def _progress(row: Row) -> Row:
    """Returns the progress of a job, with None for what it does not report."""
    nothing = dict.fromkeys(("step", "steps", "loss", "step_ms", "samples_per_second", "eta", "memory", "heartbeat_at"))
    return row["progress"] or {**nothing, "printed_at": None, "slow": []}


def _bytes(value: float | None) -> str:
    return format_readable("memory", int(value)) if value else "-"


def _last_sign(row: Row) -> str:
    """Returns the age of the last heartbeat or, without heartbeats, of the last output: "0.3 s", "12.0 s (log)"."""
    seen = _progress(row)
    if seen["heartbeat_at"] is not None:
        return _age(seen["heartbeat_at"])
    return f"{_age(seen['printed_at'])} (log)" if seen["printed_at"] is not None else "-"


_JOBS = Listing(
    (
        Column("JOB", lambda row: row["id"]),
        Column("USER", lambda row: row["user"], wide=True),
        Column("STATE", state_name),
        Column("RANKS", lambda row: str(row["ranks"]), right=True),
        Column("STEP", lambda row: format_steps(_progress(row)), right=True),
        Column("LOSS", lambda row: format_loss(_progress(row)), right=True),
        Column("STEP TIME", lambda row: format_pace(_progress(row)), right=True),
        Column("SAMPLES/S", lambda row: format_rate(_progress(row)), right=True),
        Column("MEMORY", lambda row: _bytes(_progress(row)["memory"]), right=True, wide=True),
        Column("LEFT", lambda row: format_duration(_progress(row)["eta"]), right=True),
        Column("LAST SEEN", _last_sign, right=True),
        Column("SLOW RANKS", lambda row: ",".join(map(str, _progress(row)["slow"]))),
        Column("NODES", lambda row: shorten(row["nodes"]), wide=True),
    ),
    key="id",
    empty="no job runs",
)


def _value(name: str, row: Row) -> float | None:
    found: float | None = row["values"].get(name)
    return found


def _milliseconds(name: str) -> Any:
    return lambda row: "-" if (spent := _value(name, row)) is None else f"{spent:.0f} ms"


def _style(row: Row) -> str:
    return "yellow" if row["slow"] else ""


_RANKS = Listing(
    (
        Column("RANK", lambda row: str(row["rank"]), right=True, style=_style),
        Column("NODE", lambda row: row["node"]),
        Column("STEP", lambda row: "" if row["step"] is None else str(row["step"]), right=True),
        Column("PHASE", lambda row: row["phase"] or ""),
        Column("SINCE", lambda row: _age(row["at"]), right=True),
        Column("STEP TIME", _milliseconds("step_ms"), right=True),
        Column("BUSY", _milliseconds("busy_ms"), right=True),
        Column("WAIT", _milliseconds("wait_ms"), right=True),
        Column("MEMORY", lambda row: _bytes(_value("memory", row)), right=True),
        Column("OUTPUT", lambda row: _age(row["printed_at"]), right=True),
        Column("PID", lambda row: str(row["pid"] or ""), right=True, wide=True),
        Column("", lambda row: "others wait for it" if row["slow"] else ""),
    ),
    key="rank",
    empty="the job has no running ranks",
)


def top(
    job: Annotated[
        str, typer.Argument(metavar="[JOB]", help="A name or an id.", autocompletion=complete_job_names)
    ] = "",
    once: Annotated[bool, typer.Option("--once", help="Print once, even on a terminal.")] = False,
    output: FormatOption = Format.TABLE,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Progress of running jobs: step, loss, step time; on a terminal live, until Ctrl-C. Of one job, rank by rank.

    LAST SEEN is the time since the last heartbeat of `windlass.train`, or since the last output of a script without it.
    """
    source = record_source(on, namespace, state)
    warn_if_offline(source)
    live = sys.stdout.isatty() and not once and output in (Format.TABLE, Format.WIDE)
    rows = functools.partial(_ranks, source, read_job(source, job)["id"]) if job else functools.partial(_jobs, source)

    def read() -> list[Row]:
        second = {"now": int(time.time())} if live else {}  # forces a refresh every second: ages grow
        return [row | second for row in rows()]

    watch_rows(_RANKS if job else _JOBS, read, output, again=live, paint=uses_color(no_color=no_color))
    return ExitCode.OK


def _jobs(source: RecordSource) -> list[Row]:
    return [{**row, "progress": row.get("progress")} for row in source.jobs(phase=_RUNNING, progress="1")]


def _ranks(source: RecordSource, job: str) -> list[Row]:
    details = source.job(job)
    if "members" in details:
        raise UsageError(f"{job} is an array\nname one of its jobs: {details['members'][0]['id']}")
    progress = details.get("progress") or {"ranks": [], "slow": []}
    return [{**rank, "slow": rank["rank"] in progress["slow"]} for rank in progress["ranks"]]
