"""The verb `simulate`: a trace of the past on a cluster that need not exist, under policies side by side."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, TypeAlias

import typer

from windlass.cli.exit_codes import ExitCode
from windlass.cli.failures import UsageError
from windlass.cli.output import Column, Format, FormatOption, Listing, Row, show
from windlass.cli.place import NoColorOption, paints
from windlass.cli.questions import Asked, command_of, question_of
from windlass.cli.tallying import Tally
from windlass.controller import Controller
from windlass.controller import run as control
from windlass.core.policy import POLICIES
from windlass.jobs.policy_words import CLUSTERS_OWN
from windlass.worlds.sim import SimError
from windlass.worlds.sim.report import FIGURES, Experiment, Figure, Run, build, check_folder, mean_and_sd, write
from windlass.worlds.sim.report.words import listed, told_with
from windlass.worlds.sim.study import answer
from windlass.worlds.sim.traces.read import FORMATS
from windlass.worlds.sim.walltimes import WALLTIMES
from windlass.worlds.sim.world import SimWorld

_COMPARED = "fifo,easy,windlass"


def _offered_policies(incomplete: str) -> list[str]:
    """The last of a list that is being typed."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in (*POLICIES, CLUSTERS_OWN) if name.startswith(last)]


def _offered_walltimes(incomplete: str) -> list[str]:
    return [kind for kind in WALLTIMES if kind.startswith(incomplete)]


def _offered_formats(incomplete: str) -> list[tuple[str, str]]:
    return [(name, words) for name, words in FORMATS.items() if name.startswith(incomplete)]


TracesArgument: TypeAlias = Annotated[
    list[Path] | None,
    typer.Argument(metavar="TRACE…", help="Philly, Helios, openb, Muri, SWF, sacct -P or JSON lines; .gz too."),
]
ClusterOption: TypeAlias = Annotated[
    str, typer.Option("--cluster", metavar="FILE|96x8", help="A cluster file, a trace's list of nodes, nodes×GPUs.")
]
PolicyOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="A,B,…",
        help=f"Such as fifo, sjf+easy, windlass:reservations=4. Without it: {_COMPARED}.",
        autocompletion=_offered_policies,
    ),
]
SeedsOption: TypeAlias = Annotated[str, typer.Option("--seeds", metavar="N|A-B", help="How many seeds, or which.")]
ReportOption: TypeAlias = Annotated[
    Path | None, typer.Option("--report", metavar="DIR", help="Write a page with plots there, and JSON.")
]
SyntheticOption: TypeAlias = Annotated[
    str | None, typer.Option("--synthetic", metavar="'jobs=1000 …'", help="Draw a trace from a law instead.")
]
WalltimesOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--walltimes",
        metavar="KIND",
        help="Of the jobs: trace (their own), users (such as people write), exact or none.",
        autocompletion=_offered_walltimes,
    ),
]
LoadOption: TypeAlias = Annotated[
    float | None, typer.Option("--load", min=0.001, max=1000, help="Scale the arrivals to this offered load.")
]
LimitOption: TypeAlias = Annotated[
    int | None, typer.Option("--limit", min=1, help="Only so many jobs, the first ones.")
]
FaultsOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--faults", metavar="'node=30d/4h …'|FILE", help="Mean time between a node's faults/they last."),
]
CostsOption: TypeAlias = Annotated[
    str,
    typer.Option("--costs", metavar="'restart=1m …'", help="Of start, restart and checkpoint; and checkpoint-every."),
]
KillOption: TypeAlias = Annotated[bool, typer.Option("--kill", help="Jobs end when their walltime is over.")]
SkipOption: TypeAlias = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out, and count, bad rows and jobs too large for the cluster.")
]
FormatsOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--format", help="Of the traces, if it is not recognised.", autocompletion=_offered_formats),
]
ProcessesOption: TypeAlias = Annotated[int | None, typer.Option("-j", "--processes", min=1, help="Runs at a time.")]


def simulate(
    traces: TracesArgument = None,
    cluster: ClusterOption = "",
    policy: PolicyOption = None,
    seeds: SeedsOption = "1",
    report: ReportOption = None,
    synthetic: SyntheticOption = None,
    walltimes: WalltimesOption = "trace",
    load: LoadOption = None,
    limit: LimitOption = None,
    faults: FaultsOption = None,
    costs: CostsOption = "",
    kill: KillOption = False,
    skip_bad: SkipOption = False,
    format: FormatsOption = None,
    processes: ProcessesOption = None,
    output: FormatOption = Format.TABLE,
    no_color: NoColorOption = False,
) -> int:
    """Run a trace of the past on a cluster that need not exist, and compare policies."""
    asked = Asked(
        traces=tuple(map(str, traces or ())),
        cluster=cluster,
        policies=tuple(policy or [_COMPARED]),
        seeds=seeds,
        synthetic=synthetic,
        walltimes=walltimes,
        load=load,
        limit=limit,
        faults=faults,
        costs=costs,
        kill=kill,
        skip_bad=skip_bad,
        format=format,
    )
    try:
        if report:
            check_folder(report)
        experiment, runs = _answered(asked, processes or len(os.sched_getaffinity(0)), no_color=no_color)
        page = write(build(experiment, runs), report) if report else None
    except SimError as error:
        raise UsageError(str(error)) from None
    except KeyboardInterrupt:
        _say("windlass: interrupted; nothing was written")
        return ExitCode.CANCELLED
    show(_table(), [_row(name, runs) for name in experiment.policies], output, paint=paints(no_color=no_color))
    _notes(asked, experiment, runs, page)
    return ExitCode.OK


def _answered(asked: Asked, processes: int, *, no_color: bool) -> tuple[Experiment, list[Run]]:
    signal.signal(signal.SIGTERM, _interrupt)
    with Tally("simulating", no_color=no_color) as tally:
        return answer(question_of(asked), command_of(asked), _controlled, processes=processes, on_progress=tally)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """SIGTERM means what Ctrl-C means: no run is left behind."""
    raise KeyboardInterrupt


def _controlled(world: SimWorld) -> Coroutine[Any, Any, None]:
    return control(Controller(world.recover(), world.finished), world, on_trouble=_say)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


# --- what is printed --------------------------------------------------------------------------------


def _table() -> Listing:
    columns = [Column("POLICY", lambda row: row["policy"]), Column("RUNS", lambda row: str(row["runs"]), wide=True)]
    columns += [Column(each.head, _cell(each), wide=each.wide, right=True) for each in FIGURES]
    return Listing(tuple(columns), key="policy", empty="no policy was asked for")


def _cell(figure: Figure) -> Any:
    return lambda row: told_with(row[figure.key]["mean"], row[figure.key]["sd"], figure.unit)


def _row(policy: str, runs: list[Run]) -> Row:
    own = [run.metrics for run in runs if run.policy == policy]
    spreads = {figure.key: mean_and_sd([figure.value(metrics) for metrics in own]) for figure in FIGURES}
    figures = {key: {"mean": mean, "sd": sd} for key, (mean, sd) in spreads.items()}
    left_out = dict(own[0].left_out)
    return {"policy": policy, "runs": len(own), "jobs": own[0].everything.jobs, "left_out": left_out, **figures}


def _notes(asked: Asked, experiment: Experiment, runs: list[Run], page: Path | None) -> None:
    """What a table does not say, on stderr."""
    if not experiment.random and asked.seeds != "1":
        _say("nothing in this depends on a seed: one run of each policy tells all")
    if causes := runs[0].metrics.left_out:
        _say(f"left out: {listed([f'{count:,} × {cause}' for cause, count in causes.items()])}")
    if page is not None:
        _say(f"report: {page}")
