"""`windlass simulate`: replays a trace on a simulated cluster under several policies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from windlass.cli.target_options import NoColorOption
from windlass.cli.terminal.output import Format, FormatOption

_DEFAULT_POLICIES = "fifo,easy,windlass"


def _complete_policies(incomplete: str) -> list[str]:
    """Returns completions of the last policy of a comma-separated list."""
    from windlass.core.queues.orders.registry import POLICIES  # noqa: PLC0415 - `--help` does not load the simulator
    from windlass.jobs.cluster.policy_names import CLUSTERS_OWN  # noqa: PLC0415

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in (*POLICIES, CLUSTERS_OWN) if name.startswith(last)]


def _complete_walltimes(incomplete: str) -> list[str]:
    from windlass.backends.simulator.walltimes import WALLTIMES  # noqa: PLC0415 - see above

    return [kind for kind in WALLTIMES if kind.startswith(incomplete)]


def _complete_formats(incomplete: str) -> list[tuple[str, str]]:
    from windlass.backends.simulator.traces.read import FORMATS  # noqa: PLC0415 - see above

    return [(name, words) for name, words in FORMATS.items() if name.startswith(incomplete)]


TracesArgument: TypeAlias = Annotated[
    list[Path] | None,
    typer.Argument(metavar="TRACE…", help="Trace files, gzip or plain, in a format that --format lists."),
]
ClusterOption: TypeAlias = Annotated[
    str, typer.Option("--cluster", metavar="FILE|96x8", help="A cluster file, the node list of a trace, or nodes×GPUs.")
]
PolicyOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="A,B,…",
        help=f"For example fifo, sjf+easy, windlass:reservations=4. Default: {_DEFAULT_POLICIES}.",
        autocompletion=_complete_policies,
    ),
]
SeedsOption: TypeAlias = Annotated[str, typer.Option("--seeds", metavar="N|A-B", help="Number of seeds, or a range.")]
ReportOption: TypeAlias = Annotated[
    Path | None, typer.Option("--report", metavar="DIR", help="Write a page with plots, and JSON, to this folder.")
]
SyntheticOption: TypeAlias = Annotated[
    str | None, typer.Option("--synthetic", metavar="'jobs=1000 …'", help="Generate a random trace instead.")
]
WalltimesOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--walltimes",
        metavar="KIND",
        help="Walltimes of jobs: trace (recorded), users (as users estimate them), exact or none.",
        autocompletion=_complete_walltimes,
    ),
]
LoadOption: TypeAlias = Annotated[
    float | None, typer.Option("--load", min=0.001, max=1000, help="Scale the arrival times to this offered load.")
]
LimitOption: TypeAlias = Annotated[int | None, typer.Option("--limit", min=1, help="Only the first N jobs.")]
FaultsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--faults", metavar="'node=30d/4h …'|FILE", help="Node faults: mean time between faults/mean repair time."
    ),
]
CostsOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--costs", metavar="'restart=1m …'", help="Durations of start, restart and checkpoint, and checkpoint-every."
    ),
]
KillOption: TypeAlias = Annotated[bool, typer.Option("--kill", help="Kill jobs at the end of their walltime.")]
SkipOption: TypeAlias = Annotated[
    bool, typer.Option("--skip-bad", help="Skip and count bad rows and jobs too large for the cluster.")
]
FormatsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="Format of the traces, if not recognised: philly, helios, muri, openb, sacct, swf or jsonl (of Windlass; "
        "`windlass history -o jsonl` prints it).",
        autocompletion=_complete_formats,
    ),
]
ProcessesOption: TypeAlias = Annotated[int | None, typer.Option("-j", "--processes", min=1, help="Concurrent runs.")]


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
    """Replay a trace on a simulated cluster, and compare policies."""
    from windlass.cli.policy_comparison import SimulateOptions, compare_policies  # noqa: PLC0415 - loads the simulator

    options = SimulateOptions(
        traces=tuple(map(str, traces or ())),
        cluster=cluster,
        policies=tuple(policy or [_DEFAULT_POLICIES]),
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
    return compare_policies(options, report, processes or len(os.sched_getaffinity(0)), output, no_color=no_color)
