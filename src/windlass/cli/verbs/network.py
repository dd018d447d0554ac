"""`windlass network test`: measures the network between nodes, and names what is slow, blocked or wrong."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

import typer

from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.network_sweep import SweepRequest, job_options, sweep_here, sweep_on_cluster
from windlass.cli.option_values import parse_duration_option
from windlass.cli.options import ClusterOption, refuse_local_cluster_options, requested_cluster
from windlass.cli.target import NamespaceOption, NoColorOption, OnOption, StateOption, resolve_context, state_folder
from windlass.cli.terminal.output import as_json
from windlass.cli.terminal.screen import Screen
from windlass.cli.verb_group import verb_group
from windlass.diagnose.network.charts import csv_text, plain_sweep, report_lines, svg
from windlass.diagnose.network.measurements import Sweep, read_sweep
from windlass.diagnose.network.verdict import judge_sweep
from windlass.jobs.syntax.text import read_text

network = verb_group("Measure the network between nodes.")
_CPU_SIZES, _GPU_SIZES = "1Ki,16Ki,256Ki,1Mi,4Mi", "1Ki,64Ki,1Mi,16Mi,64Mi,256Mi"
_MAX_BYTES, _MAX_SIZES = 2**33, 32
_UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


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
    timeout: Annotated[str, typer.Option("--timeout", help="Longest wait of a rank for another one.")] = "60s",
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
    named before anything is measured. Exits with 1 if something is slow, blocked or wrong.
    """
    if lines:
        return _report(read_sweep(read_text(lines).text.splitlines()), output)
    timeout_s = parse_duration_option("--timeout", timeout) / 1000
    wanted = parse_sizes(sizes or (_GPU_SIZES if gpus else _CPU_SIZES))
    screen, context = Screen(no_color=no_color), resolve_context(on, namespace)
    more = {"network": profile, "queue": queue, "selector": tuple(selector or ())}
    if context is not None:
        refuse_local_cluster_options(None, None, cluster, "")
        options = job_options(nodes, gpus, timeout_s, image=image, cpus="" if gpus else "1", **more)
        request = SweepRequest(nodes, gpus, wanted, timeout_s, options)
        return _report(sweep_on_cluster(request, context, namespace, screen), output)
    options = job_options(nodes, gpus, timeout_s, launcher="plain", cpus="0", whole_node=True, **more)
    here = requested_cluster(None if cluster else nodes, None, cluster, "")
    request = SweepRequest(nodes, gpus, wanted, timeout_s, options)
    return _report(sweep_here(request, state_folder(state), here, screen), output)


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
