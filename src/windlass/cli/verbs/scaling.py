"""`windlass scaling`: runs the same job on several numbers of ranks and compares their throughput."""

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
from windlass.cli.job_submission import read_submissions, refuse_schedules, with_network
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
from windlass.cli.target import state_folder, uses_color
from windlass.cli.target_options import NoColorOption, StateOption
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
        str, typer.Option("--ranks", metavar="1,2,4", help="Numbers of ranks to compare. Default: 1,2,4.")
    ] = "",
    steps: Annotated[int, typer.Option("--steps", min=1, help="Number of steps to measure per run.")] = 50,
    seconds: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="Measure each run for this time instead.")
    ] = "",
    warmup: Annotated[int, typer.Option("--warmup", min=0, help="Steps at the start that are not measured.")] = 10,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.svg|html", help="Also write a chart to this file.")
    ] = None,
    output: FormatOption = Format.TABLE,
    local_nodes: NodesOption = None,
    local_gpus: GpusOption = None,
    cluster: ClusterOption = None,
    policy: PolicyOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Run the same job on 1, 2, 4 ranks, one after the other, and compare speed-up, efficiency and time per phase.

    Runs on this machine. -N 1,2,4 compares numbers of nodes instead, each with the ranks of the job. Scripts that use
    windlass.train report their steps and are ended after enough of them; for others, whole runs are compared.
    Checkpoints go to a temporary folder of each run. Example: windlass scaling --ranks 1,2 -G 1 -- python train.py
    """
    by_nodes = parse_counts("--nodes", options.nodes) if options.nodes and "," in options.nodes else ()
    if by_nodes and ranks:
        raise UsageError("--ranks and --nodes 1,2,… exclude each other")
    _check_plot(plot)
    enough = StopRule(warmup, steps, parse_duration_option("--for", seconds) / 1000 if seconds else None)
    submission = with_network(
        _single_submission(read_submissions(replace(options, nodes=None) if by_nodes else options, words or [], file))
    )
    role = single_role(submission.job)
    sizes = (
        sizes_by_nodes(role, by_nodes) if by_nodes else sizes_by_ranks(role, parse_counts("--ranks", ranks or "1,2,4"))
    )
    wanted = requested_cluster(local_nodes, local_gpus, cluster, policy)
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    try:
        runs = _measure_sizes(state_folder(state), wanted, submission, sizes, enough, Screen(no_color=no_color))
    except InterruptedRunError:
        print("windlass: interrupted; the run was cancelled, and nothing is compared", file=sys.stderr)
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


def _measure_sizes(
    state: Path, wanted: ClusterOptions, submission: Submission, sizes: list[Size], enough: StopRule, screen: Screen
) -> list[MeasuredRun]:
    """Measures all sizes, the largest first, so that an impossible size is refused before any run."""
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
                label = pluralize(size.ranks, "rank")
                say = _status_line(screen, label)
                with tempfile.TemporaryDirectory(prefix="windlass-scaling-") as folder:
                    run = measure_run(connection, submission, size, enough, env, Path(folder), interrupts, say)
                _refuse_short(run, enough)
                screen.say(f"{label}: {_summary(run, enough)} (job {run.job})")
                runs.append(run)
    return runs


def _status_line(screen: Screen, label: str) -> Callable[[str], None]:
    """Returns a function that updates the status line; it does nothing without a terminal."""
    return (lambda text: screen.state(f"{label}: {text}")) if sys.stderr.isatty() else (lambda _: None)


def _summary(run: MeasuredRun, enough: StopRule) -> str:
    pace = pace_of(run.readings, enough.warmup)
    if pace is None:
        return f"ran {run.seconds:.1f} s"
    return f"{pace.samples_per_second:,.4g} samples/s over {pace.steps} steps"


def _refuse_short(run: MeasuredRun, enough: StopRule) -> None:
    """Raises UsageError for a run that reported steps, but none after the warm-up."""
    if run.readings and pace_of(run.readings, enough.warmup) is None:
        raise UsageError(
            f"on {pluralize(run.size.ranks, 'rank')} it ended after step {run.readings[-1].step} without a measured "
            f"step: the first report and reports that begin before step {enough.warmup} do not count\n"
            "run more steps, report more often (train.init(report_every=…)), or use --warmup 0; "
            "a run that resumes from its own checkpoint has few steps left"
        )


def _single_submission(submissions: list[Submission]) -> Submission:
    """Returns the only job. Raises UsageError for several jobs and for an array."""
    if len(submissions) != 1:
        raise UsageError(f"the file holds {len(submissions)} jobs: name a file with one job")
    refuse_schedules(submissions, "windlass scaling")
    if submissions[0].array:
        raise UsageError(f"{submissions[0].job.name} is an array: remove --array, one member is measured")
    return submissions[0]


def _check_plot(plot: Path | None) -> None:
    if plot is None:
        return
    if plot.suffix not in _PLOTS:
        raise UsageError(f"--plot {plot}: the file name must end with .svg or .html")
    if not plot.absolute().parent.is_dir():
        raise UsageError(f"--plot {plot}: the folder {plot.absolute().parent} does not exist")


def _write(plot: Path, rows: list[dict[str, Any]], title: str) -> None:
    try:
        plot.write_text(_PLOTS[plot.suffix](rows, title), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{plot} cannot be written: {error.strerror}") from None
    print(f"chart: {plot}", file=sys.stderr)
