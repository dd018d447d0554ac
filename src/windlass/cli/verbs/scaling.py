"""`windlass scaling`: the same job on several numbers of ranks, and how much faster each makes it."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_submission import read_submissions
from windlass.cli.option_values import parse_duration_option
from windlass.cli.options import (
    ClusterOption,
    CommandArgument,
    FileOption,
    GpusOption,
    NodesOption,
    PolicyOption,
    requested_cluster,
    takes_job_options,
)
from windlass.cli.speedup.charts import html_page, svg, text_bars
from windlass.cli.speedup.measurement import InterruptedRunError, JobFailedError, StopRule, measure_run
from windlass.cli.speedup.report import MachineLoad, comparison_notes, comparison_table
from windlass.cli.speedup.sizes import (
    Size,
    parse_counts,
    shares_cores,
    single_role,
    sizes_by_nodes,
    sizes_by_ranks,
    threads_for,
)
from windlass.cli.speedup.throughput import MeasuredRun, compare_runs, pace_of
from windlass.cli.target import NoColorOption, StateOption, state_folder, uses_color
from windlass.cli.terminal.formatting import pluralize
from windlass.cli.terminal.interrupts import Interrupts
from windlass.cli.terminal.output import Format, FormatOption, show
from windlass.cli.terminal.screen import Screen
from windlass.jobs.description.options import RunOptions
from windlass.jobs.description.submission import Submission
from windlass.server.cluster_options import ClusterOptions
from windlass.server.discovery import describe_mismatch, find_or_start

_PLOTS = {".svg": svg, ".html": html_page}


@takes_job_options
def scaling(
    options: RunOptions,
    words: CommandArgument = None,
    file: FileOption = None,
    ranks: Annotated[
        str, typer.Option("--ranks", metavar="1,2,4", help="How many ranks to compare. Without it: 1,2,4.")
    ] = "",
    steps: Annotated[int, typer.Option("--steps", min=1, help="Measure so many steps of each.")] = 50,
    seconds: Annotated[str, typer.Option("--for", metavar="DURATION", help="Measure each for so long instead.")] = "",
    warmup: Annotated[int, typer.Option("--warmup", min=0, help="Steps at the start that do not count.")] = 10,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.svg|html", help="Write a picture there, too.")
    ] = None,
    output: FormatOption = Format.TABLE,
    local_nodes: NodesOption = None,
    local_gpus: GpusOption = None,
    cluster: ClusterOption = None,
    policy: PolicyOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Run the same job on 1, 2, 4 ranks, one after the other, and compare: speed-up, efficiency, where the time goes.

    On this machine. -N 1,2,4 compares numbers of nodes instead, each with the ranks that the job says. Scripts that use
    windlass.train tell of their steps, and are ended when enough is known; of others whole runs are compared.
    Checkpoints go to a folder of each run's own, and with it: windlass scaling --ranks 1,2 -G 1 -- python train.py
    """
    by_nodes = parse_counts("--nodes", options.nodes) if options.nodes and "," in options.nodes else ()
    if by_nodes and ranks:
        raise UsageError("--ranks and --nodes 1,2,…: compare one or the other")
    _check_plot(plot)
    enough = StopRule(warmup, steps, parse_duration_option("--for", seconds) / 1000 if seconds else None)
    submission = _the_job(read_submissions(replace(options, nodes=None) if by_nodes else options, words or [], file))
    role = single_role(submission.job)
    sizes = (
        sizes_by_nodes(role, by_nodes) if by_nodes else sizes_by_ranks(role, parse_counts("--ranks", ranks or "1,2,4"))
    )
    wanted = requested_cluster(local_nodes, local_gpus, cluster, policy)
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    try:
        runs = _measured(state_folder(state), wanted, submission, sizes, enough, Screen(no_color=no_color))
    except InterruptedRunError:
        print("windlass: interrupted; what ran is ended, and nothing is compared", file=sys.stderr)
        return ExitCode.CANCELLED
    except JobFailedError as failure:
        print(f"windlass: {failure}", file=sys.stderr)
        return ExitCode.FAILED
    rows = compare_runs(runs, warmup)
    show(comparison_table(rows), rows, output, paint=uses_color(no_color=no_color))
    if output in (Format.TABLE, Format.WIDE):
        print(f"\n{text_bars(rows)}")
    sharing = tuple(size.ranks for size in sizes if shares_cores(role, size, cores))
    for note in comparison_notes(rows, runs, MachineLoad(cores, load, sharing)):
        print(note, file=sys.stderr)
    if plot is not None:
        _write(plot, rows, f"{submission.job.name}: {rows[0]['ranks']} to {rows[-1]['ranks']} ranks")
    return ExitCode.OK


def _measured(
    state: Path, wanted: ClusterOptions, submission: Submission, sizes: list[Size], enough: StopRule, screen: Screen
) -> list[MeasuredRun]:
    """All runs, the largest first: what can never run here is refused before anything has."""
    cores = len(os.sched_getaffinity(0))
    most = max(size.ranks for size in sizes)
    env = threads_for(single_role(submission.job), most, cores, os.environ)
    runs = []
    with Interrupts() as interrupts, contextlib.closing(screen):
        connection = find_or_start(state, wanted, screen.say)
        with contextlib.closing(connection):
            if ignored := describe_mismatch(connection, wanted):
                screen.say(ignored)
            for size in sorted(sizes, key=lambda size: -size.ranks):
                who = pluralize(size.ranks, "rank")
                say = _live(screen, who)
                with tempfile.TemporaryDirectory(prefix="windlass-scaling-") as folder:
                    run = measure_run(connection, submission, size, enough, env, Path(folder), interrupts, say)
                _refuse_short(run, enough)
                screen.say(f"{who}: {_in_short(run, enough)} (job {run.job})")
                runs.append(run)
    return runs


def _live(screen: Screen, who: str) -> Callable[[str], None]:
    """How it stands, on a terminal alone."""
    return (lambda text: screen.state(f"{who}: {text}")) if sys.stderr.isatty() else (lambda _: None)


def _in_short(run: MeasuredRun, enough: StopRule) -> str:
    pace = pace_of(run.readings, enough.warmup)
    if pace is None:
        return f"ran {run.seconds:.1f} s"
    return f"{pace.samples_per_second:,.4g} samples/s over {pace.steps} steps"


def _refuse_short(run: MeasuredRun, enough: StopRule) -> None:
    """Raises UsageError for a run that told of steps, but of none that count."""
    if run.readings and pace_of(run.readings, enough.warmup) is None:
        raise UsageError(
            f"on {pluralize(run.size.ranks, 'rank')} it ended after step {run.readings[-1].step}, and no step that "
            f"counts was told: the first line is left out, and what begins before step {enough.warmup}\n"
            "more steps in the script, more lines (train.init(report_every=…)), or --warmup 0; "
            "a run that goes on from a checkpoint of its own has few steps left"
        )


def _the_job(handed: list[Submission]) -> Submission:
    """The one to compare. Raises UsageError."""
    if len(handed) != 1:
        raise UsageError(f"the file holds {len(handed)} jobs: one can be compared with itself, not several")
    if handed[0].array:
        raise UsageError(f"{handed[0].job.name} is an array: leave --array out, one member is enough")
    return handed[0]


def _check_plot(plot: Path | None) -> None:
    if plot is None:
        return
    if plot.suffix not in _PLOTS:
        raise UsageError(f"--plot {plot}: a picture ends with .svg or .html")
    if not plot.absolute().parent.is_dir():
        raise UsageError(f"--plot {plot}: the folder {plot.absolute().parent} does not exist")


def _write(plot: Path, rows: list[dict[str, Any]], title: str) -> None:
    try:
        plot.write_text(_PLOTS[plot.suffix](rows, title), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{plot} cannot be written: {error.strerror}") from None
    print(f"picture: {plot}", file=sys.stderr)
