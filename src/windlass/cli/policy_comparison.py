"""What `simulate` does once it knows what it is asked: run the policies side by side, and print what came out."""

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
    Run,
    build,
    check_folder,
    mean_and_sd,
    write,
)
from windlass.backends.simulator.report.formatting import format_mean, join_names
from windlass.backends.simulator.study import Study, run_study
from windlass.backends.simulator.study.costs import parse_costs
from windlass.backends.simulator.study.faults import parse_faults
from windlass.backends.simulator.study.study import read_seeds
from windlass.backends.simulator.study.synthetic_trace import parse_synthetic_trace
from windlass.backends.simulator.traces.read import FORMATS
from windlass.backends.simulator.walltimes import WALLTIMES
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.target import uses_color
from windlass.cli.terminal.output import Column, Format, Listing, Row, show
from windlass.cli.terminal.progress import ProgressBar
from windlass.controller import Controller
from windlass.controller import run as control
from windlass.jobs.cluster.cluster_file import Cluster
from windlass.jobs.cluster.policy_names import read_policies
from windlass.jobs.syntax.names import did_you_mean
from windlass.server.garbage_collection import collect_rarely


def compare_policies(
    asked: SimulateOptions, report: Path | None, processes: int, output: Format, *, no_color: bool
) -> int:
    """Answer it, `processes` runs at a time; write the page into `report` if there is to be one. The exit code."""
    try:
        if report:
            check_folder(report)
        experiment, runs = _answered(asked, processes, no_color=no_color)
        page = write(build(experiment, runs), report) if report else None
    except SimulationError as error:
        raise UsageError(str(error)) from None
    except KeyboardInterrupt:
        _say("windlass: interrupted; nothing was written")
        return ExitCode.CANCELLED
    show(_table(), [_row(name, runs) for name in experiment.policies], output, paint=uses_color(no_color=no_color))
    _notes(asked, experiment, runs, page)
    return ExitCode.OK


def _answered(asked: SimulateOptions, processes: int, *, no_color: bool) -> tuple[Experiment, list[Run]]:
    signal.signal(signal.SIGTERM, _interrupt)
    collect_rarely()
    with ProgressBar("simulating", no_color=no_color) as tally:
        return run_study(
            study_description(asked), repeat_command(asked), _controlled, processes=processes, on_progress=tally
        )


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """SIGTERM means what Ctrl-C means: no run is left behind."""
    raise KeyboardInterrupt


def _controlled(world: SimulatorBackend) -> Coroutine[Any, Any, None]:
    return control(Controller(world.recover(), world.finished), world, on_trouble=_say)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


# --- what is printed --------------------------------------------------------------------------------


def _table() -> Listing:
    columns = [Column("POLICY", lambda row: row["policy"]), Column("RUNS", lambda row: str(row["runs"]), wide=True)]
    columns += [Column(each.head, _cell(each), wide=each.wide, right=True) for each in FIGURES]
    return Listing(tuple(columns), key="policy", empty="no policy was asked for")


def _cell(figure: Figure) -> Any:
    return lambda row: format_mean(row[figure.key]["mean"], row[figure.key]["sd"], figure.unit)


def _row(policy: str, runs: list[Run]) -> Row:
    own = [run.metrics for run in runs if run.policy == policy]
    spreads = {figure.key: mean_and_sd([figure.value(metrics) for metrics in own]) for figure in FIGURES}
    figures = {key: {"mean": mean, "sd": sd} for key, (mean, sd) in spreads.items()}
    left_out = dict(own[0].left_out)
    return {"policy": policy, "runs": len(own), "jobs": own[0].everything.jobs, "left_out": left_out, **figures}


def _notes(asked: SimulateOptions, experiment: Experiment, runs: list[Run], page: Path | None) -> None:
    """What a table does not say, on stderr."""
    if not experiment.random and asked.seeds != "1":
        _say("nothing in this depends on a seed: one run of each policy tells all")
    if causes := runs[0].metrics.left_out:
        _say(f"left out: {join_names([f'{count:,} × {cause}' for cause, count in causes.items()])}")
    if page is not None:
        _say(f"report: {page}")


_EQUAL_NODES = re.compile(r"^(\d{1,6})[x×](\d{1,4})$")
_MOST_NODES = 100_000


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """The options that say what is simulated, as they were typed; "", None and False where they were not."""

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


def study_description(asked: SimulateOptions) -> Study:
    """The question, everything that it names read but the traces. Raises UsageError, SimulationError and JobError."""
    _check(asked)
    cluster = _cluster(asked.cluster)
    try:
        policies = read_policies(asked.policies, cluster.policy)
    except ValueError as error:
        raise UsageError(f"--policy: {error}") from None
    names = [node.name for node in cluster.nodes]
    return Study(
        cluster=cluster,
        policies=policies,
        traces=asked.traces,
        drawn=None if asked.synthetic is None else parse_synthetic_trace(asked.synthetic, cluster),
        seeds=read_seeds(asked.seeds),
        format=asked.format,
        skip_bad=asked.skip_bad,
        walltimes=asked.walltimes,
        load=asked.load,
        limit=asked.limit,
        kill=asked.kill,
        costs=parse_costs(asked.costs) if asked.costs else Costs(),
        faults=None if asked.faults is None else parse_faults(asked.faults, names),
    )


def _check(asked: SimulateOptions) -> None:
    if not asked.traces and asked.synthetic is None:
        raise UsageError("no trace\nname one or more files, or draw one: --synthetic 'jobs=1000 load=0.9'")
    if asked.traces and asked.synthetic is not None:
        raise UsageError("--synthetic draws a trace, and a trace is named too; leave one of them out")
    if not asked.cluster:
        raise UsageError("--cluster is missing; name a cluster file, a trace's own list of nodes, or for example 96x8")
    choices = (("--walltimes", asked.walltimes, list(WALLTIMES)), ("--format", asked.format, list(FORMATS)))
    for option, given, known in choices:
        if given is not None and given not in known:
            raise UsageError(f"{option} has no {given!r}{did_you_mean(given, known)}")


def _cluster(given: str) -> Cluster:
    equal = _EQUAL_NODES.match(given)
    if equal is None:
        return read_nodes(given)
    nodes, gpus = int(equal[1]), int(equal[2])
    if not 1 <= nodes <= _MOST_NODES:
        raise UsageError(f"--cluster {given}: between 1 and {_MOST_NODES:,} nodes")
    return cluster_of(nodes, gpus)


def repeat_command(asked: SimulateOptions) -> str:
    """The command that asks the same again. Files lose their folders: a report tells nothing of the machine."""
    words = ["windlass", "simulate", *map(_name, asked.traces)]
    words += ["--cluster", asked.cluster if _EQUAL_NODES.match(asked.cluster) else _name(asked.cluster)]
    words += ["--policy", ",".join(asked.policies)]
    words += ["--seeds", asked.seeds] if asked.seeds != "1" else []
    for option in ("synthetic", "load", "limit", "faults", "costs", "format"):
        if value := getattr(asked, option):
            words += [f"--{option}", _plain(option, value)]
    if asked.walltimes != "trace":
        words += ["--walltimes", asked.walltimes]
    words += [f"--{flag.replace('_', '-')}" for flag in ("kill", "skip_bad") if getattr(asked, flag)]
    return shlex.join([*words, "--report", "report"])


def _plain(option: str, value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return _name(str(value)) if option == "faults" and Path(str(value)).exists() else str(value)


def _name(path: str) -> str:
    return os.path.basename(path)  # noqa: PTH119 - a name, no path: Path("a/") would say "a" as well
