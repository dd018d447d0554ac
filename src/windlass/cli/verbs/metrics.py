"""`windlass metrics`: prints the recorded telemetry of a job or a node, or the present for Prometheus."""

from __future__ import annotations

import csv
import fnmatch
import math
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.cli.completion import complete_job_names, complete_measured_nodes
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.option_values import parse_duration_option
from windlass.cli.target import resolve_context, state_folder, uses_color
from windlass.cli.target_options import NoColorOption, OnOption, StateOption
from windlass.cli.terminal.charts import chart_lines, sparkline
from windlass.cli.terminal.output import Column, Format, Listing, as_json, show
from windlass.core.model.resources import format_bytes
from windlass.server.discovery import open_state
from windlass.server.telemetry_records.recorder import STORE_NAME

Row = dict[str, Any]
_TREND_WIDTH, _CHART_HEIGHT = 24, 8
_BYTES = "By"
"""The unit of a size in the metric table (UCUM)."""
_RANK, _GPU = "rank", "gpu"
_MARGIN = 12
"""Columns for the values beside a chart."""


class MetricsFormat(StrEnum):
    """Output format of metrics."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PLOT = "plot"
    PROMETHEUS = "prometheus"


class Statistic(StrEnum):
    """Value that stands for a longer span, where one point has several measurements."""

    MEAN = "mean"
    MIN = "min"
    MAX = "max"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class MeasuredObject:
    """A job or a node, and the ranks or GPUs that get a series each; None: one series with the mean of all."""

    job: str = ""
    node: str = ""
    ranks: Sequence[int] | None = None
    gpus: Sequence[int] | None = None

    def parts(self, level: str) -> Sequence[int] | None:
        """The chosen ranks or GPUs of a series by its level in the metric table."""
        return {_RANK: self.ranks, _GPU: self.gpus}.get(level)


def metrics(
    job: Annotated[
        str,
        typer.Argument(
            metavar="JOB",
            help="A name or an id; none with --node, or with -o prometheus, which prints all of the last minute.",
            autocompletion=complete_job_names,
        ),
    ] = "",
    node: Annotated[
        str,
        typer.Option("--node", metavar="NODE", help="A node instead of a job.", autocompletion=complete_measured_nodes),
    ] = "",
    metric: Annotated[
        list[str] | None,
        typer.Option("-m", "--metric", help="Only series with this in their name; * and ? stand for any characters."),
    ] = None,
    rank: Annotated[
        list[int] | None, typer.Option("--rank", min=0, help="Only these ranks. Default: the mean.")
    ] = None,
    gpu: Annotated[
        list[int] | None, typer.Option("--gpu", min=0, help="Only these GPUs of the node. Default: the mean.")
    ] = None,
    since: Annotated[str, typer.Option("--since", help="Only this long before now: 90s, 10m, 2h, 7d.")] = "",
    statistic: Annotated[
        Statistic, typer.Option("--statistic", help="Value of a span with several measurements.")
    ] = Statistic.MEAN,
    per_rank: Annotated[
        bool, typer.Option("--per-rank", help="With -o prometheus: also the series of each rank.")
    ] = False,
    points: Annotated[int, typer.Option("--points", min=1, max=10_000, help="Maximum number of times.")] = 1_000,
    output: Annotated[MetricsFormat, typer.Option("-o", "--output", help="Output format.")] = MetricsFormat.TABLE,
    on: OnOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Recorded telemetry: of a job loss, step time by phase, throughput and each rank; of a node CPU, memory and GPUs.

    Kept after the job: every two seconds for an hour, minutes for a day, hours for 90 days. Works without a daemon.
    """
    if resolve_context(on) is not None:
        raise UsageError("metrics of a cluster are not recorded yet\nuse `windlass top JOB`, or Prometheus")
    measured = MeasuredObject(job, node, rank, gpu)
    _check_options(measured, output, per_rank=per_rank)
    if output is MetricsFormat.PROMETHEUS:
        return _print_present(state_folder(state), per_rank=per_rank)
    begin = int(time.time() * 1000) - parse_duration_option("--since", since) if since else 0
    answer = _read(state_folder(state), measured, since=begin, points=points, statistic=statistic.value)
    wanted = (found for found in answer["series"] if _is_wanted(found["series"], metric))
    series = [row for found in wanted for row in _rows(found, measured)]
    if metric and not series:
        message = f"{answer.get('id', node)} has no metric like {', '.join(metric)}"
        raise UsageError(f"{message}\nlist all: windlass metrics {f'--node {node}' if node else job}")
    _print(answer, series, output, paint=uses_color(no_color=no_color))
    return ExitCode.OK


def _check_options(measured: MeasuredObject, output: MetricsFormat, *, per_rank: bool) -> None:
    """Raises UsageError for options that do not belong together."""
    is_present = output is MetricsFormat.PROMETHEUS
    if measured.job and measured.node:
        raise UsageError(f"{measured.job} is a job, and --node names a node\nleave one of them out")
    if (measured.ranks and measured.node) or (measured.gpus and not measured.node):
        raise UsageError("--rank belongs to a job, --gpu to a node\nuse JOB --rank N, or --node NODE --gpu N")
    if (named := measured.job or measured.node) and is_present:
        raise UsageError(f"-o prometheus prints all running jobs\nleave {named} out")
    if not named and not is_present:
        raise UsageError(
            "which job?\nwindlass metrics JOB; a node: --node NODE; all running jobs for Prometheus: -o prometheus"
        )
    if per_rank and not is_present:
        raise UsageError("--per-rank belongs to -o prometheus\nchoose ranks with --rank N")


def _read(state: Path, measured: MeasuredObject, **span: Any) -> Row:
    """The series of a job, as `Service.metrics` returns them, or of a node. Raises ApiError, UsageError."""
    if measured.job:
        return open_state(state).metrics(measured.job, **span)
    from windlass.server.telemetry_records.queries import HistorySpan, node_metrics  # noqa: PLC0415 - verbs start light

    return node_metrics(state / STORE_NAME, measured.node, HistorySpan(**span))


def _print_present(state: Path, *, per_rank: bool) -> int:
    """Prints the newest recorded frames in the text format of Prometheus."""
    from windlass.server.telemetry_records.queries import newest_frames  # noqa: PLC0415 - verbs start light
    from windlass.telemetry.exposition import render_frames  # noqa: PLC0415

    frames = newest_frames(state / STORE_NAME, int(time.time() * 1000))
    print(render_frames(frames, ranks=per_rank).decode(), end="")
    return ExitCode.OK


def _is_wanted(series: str, patterns: Sequence[str] | None) -> bool:
    return not patterns or any(fnmatch.fnmatchcase(series, f"*{each}*") for each in patterns)


def _rows(found: Row, measured: MeasuredObject) -> Iterator[Row]:
    """Yields the series with one value a time: of each chosen rank or GPU, else the mean of all."""
    values, parts = found["values"], measured.parts(found["level"])
    if parts is None:
        yield {**found, _RANK: None, "values": [_mean(row) for row in values]}
        return
    for part in parts:
        own = [row[part] if part < len(row) else None for row in values]
        if any(value is not None for value in own):
            yield {**found, _RANK: None, found["level"]: part, "values": own}


def _mean(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return math.fsum(present) / len(present) if present else None


def _print(answer: Row, series: Sequence[Row], output: MetricsFormat, *, paint: bool) -> None:
    if output is MetricsFormat.JSON:
        print(as_json({**answer, "series": list(series)}))
    elif output is MetricsFormat.CSV:
        _print_csv(series)
    elif output is MetricsFormat.PLOT:
        print("\n\n".join(_chart(row) for row in series))
    else:
        show(_LISTING, [_summary(row) for row in series], Format.TABLE, paint=paint)


def _print_csv(series: Sequence[Row]) -> None:
    """Prints one line for each time, with a column for each series."""
    times = sorted({at for row in series for at in row["times"]})
    columns = [dict(zip(row["times"], row["values"], strict=True)) for row in series]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["time", *(_title(row) for row in series)])
    for at in times:
        moment = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
        writer.writerow([moment, *("" if (value := column.get(at)) is None else value for column in columns)])


def _chart(row: Row) -> str:
    width = max(20, shutil.get_terminal_size().columns - _MARGIN)
    lines = chart_lines(row["values"], width, _CHART_HEIGHT)
    summary = _summary(row)
    edges = {0: summary["max"], len(lines) - 1: summary["min"]}
    drawn = [f"{edges.get(number, ''):>{_MARGIN - 2}} │{line}" for number, line in enumerate(lines)]
    begin, end = _clock(row["times"][0]), _clock(row["times"][-1])
    across = max(map(len, lines), default=0)
    times = begin + end.rjust(max(len(end) + 2, across - len(begin)))
    axis = [" " * (_MARGIN - 1) + "└" + "─" * across, " " * _MARGIN + times]
    unit = f", {row['unit']}" if row["unit"] not in ("", _BYTES) else ""
    return "\n".join([f"{_title(row)} ({row['help'].rstrip('.')}{unit})", *drawn, *axis])


def _clock(at: int) -> str:
    return time.strftime("%m-%d %H:%M:%S", time.localtime(at / 1000))


def _title(row: Row) -> str:
    part = next((label for label in (_RANK, _GPU) if row.get(label) is not None), "")
    if not part:
        return str(row["series"])
    name, brace, labels = row["series"].partition("{")
    return f'{name}{{{labels.rstrip("}") + "," if brace else ""}{part}="{row[part]}"}}'


def _summary(row: Row) -> Row:
    present = [value for value in row["values"] if value is not None]
    shown = {
        "last": present[-1],
        "min": min(present),
        "mean": math.fsum(present) / len(present),
        "max": max(present),
    }
    texts = {name: _number(value, row["unit"]) for name, value in shown.items()}
    return {
        **texts,
        "series": _title(row),
        "unit": "bytes" if row["unit"] == _BYTES else row["unit"],
        "trend": sparkline(row["values"], _TREND_WIDTH),
    }


def _number(value: float, unit: str) -> str:
    """The value; of bytes with a binary suffix, for people."""
    if unit == _BYTES:
        return format_bytes(value)
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"


_LISTING = Listing(
    (
        Column("SERIES", lambda row: row["series"]),
        Column("UNIT", lambda row: row["unit"]),
        *(Column(name.upper(), itemgetter(name), right=True) for name in ("last", "min", "mean", "max")),
        Column("TREND", lambda row: row["trend"]),
    ),
    key="series",
    empty="nothing has been recorded of this job",
)
