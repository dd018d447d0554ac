"""`windlass network test`: measures the network between nodes, and names what is slow, blocked or wrong."""

from __future__ import annotations

import re
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.backends.errors import BackendError
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.network_results import keep_result, read_results
from windlass.cli.network_sweep import SweepRequest, SweepRun, job_options, sweep_here, sweep_on_cluster
from windlass.cli.option_values import parse_duration_option
from windlass.cli.options import ClusterOption, refuse_local_cluster_options, requested_cluster
from windlass.cli.queue_limit import QueueLimit
from windlass.cli.target import resolve_context, state_folder, uses_color
from windlass.cli.target_options import NamespaceOption, NoColorOption, OnOption, StateOption
from windlass.cli.terminal.formatting import format_time, shorten
from windlass.cli.terminal.output import Column, Format, Listing, as_json, show
from windlass.cli.terminal.screen import Screen
from windlass.cli.verb_group import verb_group
from windlass.cli.verbs.operator_run import access_to
from windlass.cli.verbs.why import explanation_text
from windlass.diagnose.network.charts import csv_text, format_rate, plain_sweep, report_lines, svg
from windlass.diagnose.network.measurements import Sweep, read_sweep
from windlass.diagnose.network.result_log import NetworkResult
from windlass.diagnose.network.verdict import judge_sweep
from windlass.jobs.syntax.text import read_text

network = verb_group("Measure the network between nodes.")
_CPU_SIZES, _GPU_SIZES = "1Ki,16Ki,256Ki,1Mi,4Mi", "1Ki,64Ki,1Mi,16Mi,64Mi,256Mi"
_MAX_BYTES, _MAX_SIZES = 2**33, 32
_FIX = (
    "wait longer: --timeout 1h; other nodes: --selector LABEL=VALUE; fewer nodes: -N; "
    "the queue: windlass why, windlass nodes"
)
_UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}

_RESULTS = Listing(
    (
        Column("NODES", lambda row: shorten(row["nodes"])),
        Column("MEASURED", lambda row: format_time(row["at"])),
        Column("GPUS", lambda row: str(row["gpus"] or "-"), right=True),
        Column("BANDWIDTH", lambda row: format_rate(row["bandwidth"]) if row["bandwidth"] else "-", right=True),
        Column("RESULT", lambda row: "; ".join(row["findings"]) or "ok"),
    ),
    key="nodes",
    empty="no result is kept; windlass network test measures one",
)


class SweepFormat(StrEnum):
    """Output format of a network test."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    SVG = "svg"


@network.callback()
def _describe() -> None:
    """Measure the network between nodes, and name what is slow, blocked or wrong."""


@network.command("test", short_help="Latency and bandwidth between all pairs of nodes, and sweeps of collectives")
def measure(
    nodes: Annotated[int, typer.Option("-N", "--nodes", min=2, max=4096, help="Number of nodes.")] = 2,
    gpus: Annotated[int, typer.Option("-G", "--gpus", min=0, max=64, help="GPUs of each node. 0: gloo on CPUs.")] = 0,
    sizes: Annotated[
        str, typer.Option("--sizes", help=f"Sizes, with commas. Default: {_CPU_SIZES}; with GPUs up to 256Mi.")
    ] = "",
    timeout: Annotated[
        str, typer.Option("--timeout", help="Longest wait for nodes, behind other jobs in the queue.")
    ] = "10m",
    rank_timeout: Annotated[
        str, typer.Option("--rank-timeout", help="Longest wait of a rank for another one.")
    ] = "60s",
    profile: Annotated[
        str, typer.Option("--network", help="Network profile: efa, infiniband, roce, roce-sriov, tcp, auto.")
    ] = "",
    image: Annotated[str, typer.Option("--image", help="On Kubernetes: an image with Python and torch.")] = "",
    queue: Annotated[str, typer.Option("--queue", help="The queue whose quota it uses.")] = "",
    selector: Annotated[
        list[str] | None, typer.Option("--selector", metavar="LABEL=VALUE", help="Only nodes with this label.")
    ] = None,
    lines: Annotated[
        str,
        typer.Option("--from", metavar="FILE", help="Report on the output of a test by another launcher; - is stdin."),
    ] = "",
    output: Annotated[SweepFormat, typer.Option("-o", "--output", help="Output format.")] = SweepFormat.TABLE,
    cluster: ClusterOption = None,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Run a job of one rank a node (a GPU with -G) that measures the network between its nodes.

    Latency and bandwidth of all pairs of nodes, then all-reduce and all-gather over sizes, with NCCL or gloo. Every
    result is checked. Pairs below 85 % of the median, and nodes whose pairs all are, are named. A blocked port is
    named before anything is measured. The result is kept: `windlass network results`. Exits with 1 if something is
    slow, blocked or wrong, and with 75 if no nodes are free within --timeout.
    """
    if lines:
        return _report(read_sweep(read_text(lines).text.splitlines()), output)
    timeout_s = parse_duration_option("--rank-timeout", rank_timeout) / 1000
    limit = QueueLimit(parse_duration_option("--timeout", timeout), explanation_text, _FIX)
    wanted = parse_sizes(sizes or (_GPU_SIZES if gpus else _CPU_SIZES))
    screen, context = Screen(no_color=no_color), resolve_context(on, namespace)
    more = {"network": profile, "queue": queue, "selector": tuple(selector or ())}
    if context is not None:
        refuse_local_cluster_options(None, None, cluster, "")
        options = job_options(nodes, gpus, timeout_s, image=image, cpus="" if gpus else "1", **more)
        request = SweepRequest(nodes, gpus, wanted, timeout_s, options)
        run = sweep_on_cluster(request, context, namespace, screen, limit)
    else:
        options = job_options(nodes, gpus, timeout_s, launcher="plain", cpus="0", whole_node=True, **more)
        here = requested_cluster(None if cluster else nodes, None, cluster, "")
        request = SweepRequest(nodes, gpus, wanted, timeout_s, options)
        run = sweep_here(request, state_folder(state), here, screen, limit)
    if run.is_cancelled:
        return ExitCode.CANCELLED
    _keep(run, gpus, state_folder(state))
    return _report(run.sweep, output)


def _keep(run: SweepRun, gpus: int, state: Path) -> None:
    """Keeps the result of a test that had nodes; a folder that cannot be written is a warning."""
    if not run.nodes:
        return
    try:
        fault = keep_result(state, run.cluster, int(time.time() * 1000), run.nodes, gpus, run.events)
    except (BackendError, OSError) as error:
        fault = str(error)
    if fault:
        print(f"warning: the result is not kept: {fault}", file=sys.stderr)


@network.command("results", short_help="The last result of the network test for each set of nodes")
def results(
    nodes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NODE…]", help="Print the newest result that these nodes are part of."),
    ] = None,
    output: Annotated[SweepFormat, typer.Option("-o", "--output", help="Output format.")] = SweepFormat.TABLE,
    on: OnOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """List the last result of `windlass network test` for each set of nodes, or print one of them again.

    The results of the last 64 sets of nodes are kept in the state folder. Exits with 1 if the printed result names
    something slow, blocked or wrong.
    """
    context = resolve_context(on)
    kept = read_results(state_folder(state), "" if context is None else access_to(context or None, None).server)
    if nodes:
        found = next((each for each in kept if set(nodes) <= set(each.nodes)), None)
        if found is None:
            known = ", ".join(",".join(each.nodes) for each in kept[:4]) or "none"
            raise UsageError(
                f"no result of {', '.join(nodes)} is kept; kept: {known}\nmeasure it: windlass network test"
            )
        if output is SweepFormat.TABLE:
            print(f"measured {format_time(found.at)} on {shorten(found.nodes)}")
        return _report(found.sweep, output)
    if output not in (SweepFormat.TABLE, SweepFormat.JSON):
        raise UsageError(f"-o {output} prints one result: name its nodes")
    how = Format.JSON if output is SweepFormat.JSON else Format.TABLE
    show(_RESULTS, [_row(each) for each in kept], how, paint=uses_color(no_color=no_color))
    return ExitCode.OK


def _row(result: NetworkResult) -> dict[str, Any]:
    verdict = judge_sweep(result.sweep)
    return {
        "nodes": list(result.nodes),
        "at": result.at,
        "gpus": result.gpus,
        "ok": verdict.is_ok,
        "bandwidth": verdict.bandwidth,
        "findings": [each.text for each in verdict.findings],
    }


def parse_sizes(text: str) -> tuple[int, ...]:
    """Returns the sizes of "1Ki,4Mi" in bytes, ascending. Raises UsageError."""
    sizes = set()
    for word in text.split(","):
        found = re.fullmatch(r"([1-9][0-9]{0,9})(Ki|Mi|Gi|)B?", word.strip())
        size = int(found[1]) * _UNITS[found[2]] if found else 0
        if not 4 <= size <= _MAX_BYTES:
            raise UsageError(f"--sizes expects sizes such as 1Ki,64Ki,4Mi, from 4 bytes to 8Gi, not {word[:40]!r}")
        sizes.add(size)
    if len(sizes) > _MAX_SIZES:
        raise UsageError(f"--sizes takes {_MAX_SIZES} sizes at most, not {len(sizes)}")
    return tuple(sorted(sizes))


def _report(sweep: Sweep, output: SweepFormat) -> int:
    """Prints a test. Returns the exit code."""
    verdict = judge_sweep(sweep)
    if output is SweepFormat.JSON:
        print(as_json(plain_sweep(sweep, verdict)))
    elif output is SweepFormat.CSV:
        print(csv_text(sweep, verdict), end="")
    elif output is SweepFormat.SVG:
        if not sweep.collectives:
            raise UsageError("there is nothing to draw: no collective was measured\n-o table names what is wrong")
        print(svg(sweep), end="")
    else:
        print("\n".join(report_lines(sweep, verdict)))
    return ExitCode.OK if verdict.is_ok else ExitCode.FAILED
