"""The verb `simulate`: a trace of the past on a cluster that need not exist, under policies side by side."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from windlass.cli.target import NoColorOption
from windlass.cli.terminal.output import Format, FormatOption

_COMPARED = "fifo,easy,windlass"


def _offered_policies(incomplete: str) -> list[str]:
    """The last of a list that is being typed."""
    from windlass.core.queues.orders.registry import POLICIES  # noqa: PLC0415 - help, which is read most, does without the simulator
    from windlass.jobs.cluster.policy_names import CLUSTERS_OWN  # noqa: PLC0415

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in (*POLICIES, CLUSTERS_OWN) if name.startswith(last)]


def _offered_walltimes(incomplete: str) -> list[str]:
    from windlass.backends.simulator.walltimes import WALLTIMES  # noqa: PLC0415 - see above

    return [kind for kind in WALLTIMES if kind.startswith(incomplete)]


def _offered_formats(incomplete: str) -> list[tuple[str, str]]:
    from windlass.backends.simulator.traces.read import FORMATS  # noqa: PLC0415 - see above

    return [(name, words) for name, words in FORMATS.items() if name.startswith(incomplete)]


TracesArgument: TypeAlias = Annotated[
    list[Path] | None,
    typer.Argument(metavar="TRACE…", help="Files, gzip or not, of any format that --format lists."),
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
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="Of the traces, if it is not recognised: philly, helios, muri, openb, sacct, swf or jsonl (our own; "
        "`windlass history -o jsonl` prints it).",
        autocompletion=_offered_formats,
    ),
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
    from windlass.cli.policy_comparison import SimulateOptions, compare_policies  # noqa: PLC0415 - loads the simulator

    asked = SimulateOptions(
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
    return compare_policies(asked, report, processes or len(os.sched_getaffinity(0)), output, no_color=no_color)
