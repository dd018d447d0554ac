"""Runs the policies of `windlass simulate` in the simulator and prints their metrics side by side."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from windlass.backends.simulator import SimulationError, cluster_of, read_nodes
from windlass.backends.simulator.backend import SimulatorBackend
from windlass.backends.simulator.progress import Costs
from windlass.backends.simulator.report import (
    FIGURES,
    Experiment,
    Figure,
    PolicyRun,
    build,
    check_folder,
    mean_and_sd,
    write,
)
from windlass.backends.simulator.report.number_format import format_mean, join_names
from windlass.backends.simulator.study import Study, run_study
from windlass.backends.simulator.study.costs import parse_costs
from windlass.backends.simulator.study.faults import parse_faults
from windlass.backends.simulator.study.run import UNCOUNTED_CORES
from windlass.backends.simulator.study.study import read_seeds
from windlass.backends.simulator.study.synthetic_trace import parse_synthetic_trace
from windlass.backends.simulator.traces.read import FORMATS
from windlass.backends.simulator.walltimes import WALLTIMES
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.target import uses_color
from windlass.cli.terminal.output import Column, Format, Listing, Row, show
from windlass.cli.terminal.progress import ProgressBar
from windlass.controller.controller import Controller
from windlass.controller.controller import run as control
from windlass.jobs.cluster.cluster_file import Cluster
from windlass.jobs.cluster.policy_names import read_policies
from windlass.jobs.syntax.names import did_you_mean
from windlass.server.garbage_collection import collect_rarely


def compare_policies(
    options: SimulateOptions, report: Path | None, processes: int, output: Format, *, no_color: bool
) -> int:
    """Simulates every policy, `processes` runs at a time, and writes the report to a folder. Returns the exit code."""
    try:
        if report:
            check_folder(report)
        experiment, runs = _simulate(options, processes, no_color=no_color)
        page = write(build(experiment, runs), report) if report else None
    except SimulationError as error:
        raise UsageError(str(error)) from None
    except KeyboardInterrupt:
        _print_message("windlass: interrupted; nothing was written")
        return ExitCode.CANCELLED
    show(_table(), [_row(name, runs) for name in experiment.policies], output, paint=uses_color(no_color=no_color))
    _print_notes(options, experiment, runs, page)
    return ExitCode.OK


def _simulate(options: SimulateOptions, processes: int, *, no_color: bool) -> tuple[Experiment, list[PolicyRun]]:
    signal.signal(signal.SIGTERM, _interrupt)
    collect_rarely()
    with ProgressBar("simulating", no_color=no_color) as bar:
        command = repeat_command(options)
        return run_study(study_description(options), command, _run_controller, processes=processes, on_progress=bar)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Treats SIGTERM as Ctrl-C, so that all worker processes are ended."""
    raise KeyboardInterrupt


def _run_controller(world: SimulatorBackend) -> Coroutine[Any, Any, None]:
    return control(Controller(world.recover(), world.finished), world, on_trouble=_print_message)


def _print_message(text: str) -> None:
    print(text, file=sys.stderr)


# --- what is printed --------------------------------------------------------------------------------


def _table() -> Listing:
    columns = [Column("POLICY", lambda row: row["policy"]), Column("RUNS", lambda row: str(row["runs"]), wide=True)]
    columns += [Column(each.head, _metric_cell(each), wide=each.wide, right=True) for each in FIGURES]
    return Listing(tuple(columns), key="policy", empty="no policy was given")


def _metric_cell(figure: Figure) -> Any:
    return lambda row: format_mean(row[figure.key]["mean"], row[figure.key]["sd"], figure.unit)


def _row(policy: str, runs: list[PolicyRun]) -> Row:
    own = [run.metrics for run in runs if run.policy == policy]
    spreads = {figure.key: mean_and_sd([figure.value(metrics) for metrics in own]) for figure in FIGURES}
    figures = {key: {"mean": mean, "sd": sd} for key, (mean, sd) in spreads.items()}
    left_out = dict(own[0].left_out)
    return {"policy": policy, "runs": len(own), "jobs": own[0].everything.jobs, "left_out": left_out, **figures}


def _print_notes(options: SimulateOptions, experiment: Experiment, runs: list[PolicyRun], page: Path | None) -> None:
    """Prints on stderr what the table does not show: unused seeds, skipped jobs, the report."""
    if not experiment.random and options.seeds != "1":
        _print_message("nothing depends on the seed: each policy was run once")
    if UNCOUNTED_CORES in experiment.conditions:
        _print_message(UNCOUNTED_CORES)
    if causes := runs[0].metrics.left_out:
        _print_message(f"skipped: {join_names([f'{count:,} × {cause}' for cause, count in causes.items()])}")
    if page is not None:
        _print_message(f"report: {page}")


_EQUAL_NODES = re.compile(r"^(\d{1,6})[x×](\d{1,4})$")
_MAX_NODES = 100_000


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """The options of `windlass simulate` that define the experiment, as typed; "", None or False if not given."""

    traces: tuple[str, ...]
    cluster: str
    policies: tuple[str, ...]
    seeds: str
    synthetic: str | None = None
    walltimes: str = "trace"
    load: float | None = None
    limit: int | None = None
    faults: str | None = None
    costs: str = ""
    kill: bool = False
    skip_bad: bool = False
    format: str | None = None


def study_description(options: SimulateOptions) -> Study:
    """Parses the options and reads the named files except traces. Raises UsageError, SimulationError and InputError."""
    _check(options)
    cluster = _cluster(options.cluster)
    try:
        policies = read_policies(options.policies, cluster.policy)
    except ValueError as error:
        raise UsageError(f"--policy: {error}") from None
    names = [node.name for node in cluster.nodes]
    return Study(
        cluster=cluster,
        policies=policies,
        traces=options.traces,
        drawn=None if options.synthetic is None else parse_synthetic_trace(options.synthetic, cluster),
        seeds=read_seeds(options.seeds),
        format=options.format,
        skip_bad=options.skip_bad,
        walltimes=options.walltimes,
        load=options.load,
        limit=options.limit,
        kill=options.kill,
        costs=parse_costs(options.costs) if options.costs else Costs(),
        faults=None if options.faults is None else parse_faults(options.faults, names),
    )


def _check(options: SimulateOptions) -> None:
    if not options.traces and options.synthetic is None:
        raise UsageError("no trace\nname one or more files, or generate one: --synthetic 'jobs=1000 load=0.9'")
    if options.traces and options.synthetic is not None:
        raise UsageError("--synthetic and a trace file exclude each other; remove one of them")
    if not options.cluster:
        raise UsageError("--cluster is missing; name a cluster file, the node list of a trace, or for example 96x8")
    choices = (("--walltimes", options.walltimes, list(WALLTIMES)), ("--format", options.format, list(FORMATS)))
    for option, given, known in choices:
        if given is not None and given not in known:
            raise UsageError(f"{option} does not know {given!r}{did_you_mean(given, known)}")


def _cluster(given: str) -> Cluster:
    equal = _EQUAL_NODES.match(given)
    if equal is None:
        return read_nodes(given)
    nodes, gpus = int(equal[1]), int(equal[2])
    if not 1 <= nodes <= _MAX_NODES:
        raise UsageError(f"--cluster {given}: expects between 1 and {_MAX_NODES:,} nodes")
    return cluster_of(nodes, gpus)


def repeat_command(options: SimulateOptions) -> str:
    """Returns a command that repeats the experiment. Files appear without folders, so a report shows no local paths."""
    words = ["windlass", "simulate", *map(_name, options.traces)]
    words += ["--cluster", options.cluster if _EQUAL_NODES.match(options.cluster) else _name(options.cluster)]
    words += ["--policy", ",".join(options.policies)]
    words += ["--seeds", options.seeds] if options.seeds != "1" else []
    for option in ("synthetic", "load", "limit", "faults", "costs", "format"):
        if value := getattr(options, option):
            words += [f"--{option}", _plain(option, value)]
    if options.walltimes != "trace":
        words += ["--walltimes", options.walltimes]
    words += [f"--{flag.replace('_', '-')}" for flag in ("kill", "skip_bad") if getattr(options, flag)]
    return shlex.join([*words, "--report", "report"])


def _plain(option: str, value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return _name(str(value)) if option == "faults" and Path(str(value)).exists() else str(value)


def _name(path: str) -> str:
    return os.path.basename(path)  # noqa: PTH119 - Path("a/").name would drop the slash
