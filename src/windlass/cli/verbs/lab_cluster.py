"""`windlass lab cluster`: the cluster of the workshop."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.cli.exit_codes import ExitCode
from windlass.cli.terminal.formatting import pluralize
from windlass.cli.terminal.output import as_json
from windlass.cli.verb_group import verb_group
from windlass.labs.lab_folders import LabFolders, lab_folders

if TYPE_CHECKING:
    from windlass.controlplane.cluster_folder import Running
    from windlass.labs.lab_cluster import LabClusterStatus

cluster = verb_group("The cluster of the workshop, on this machine: Kubernetes with Windlass, until it is taken down.")


class _Form(StrEnum):
    TEXT = "text"
    JSON = "json"


@cluster.command("up", short_help="Start the cluster in the background")
def up(
    fake: Annotated[bool, typer.Option("--fake", help="Fake nodes also where real ones can run.")] = False,
    kueue: Annotated[bool, typer.Option("--kueue", help="With Kueue and the controller of JobSets.")] = False,
    gpus: Annotated[int, typer.Option("--gpus", min=0, max=64, help="Declared GPUs of each node.")] = 2,
) -> int:
    """Start an API server, its controllers, two nodes and the operator, and wait until jobs can be submitted.

    For root the nodes are real: they run containers, whose image is this machine's Python. Others get fake nodes, on
    which pods are Running without a container. The first start builds the programs from their sources, in minutes.
    """
    from windlass.labs.lab_cluster import cluster_up  # noqa: PLC0415 - loads the libraries of Kubernetes

    began, folders = time.monotonic(), lab_folders()
    running = cluster_up(folders.cluster, _report, real=False if fake else None, kueue=kueue, gpus=gpus)
    print(f"the cluster is up after {time.monotonic() - began:.0f} s: {_nodes(running)}")
    print(f"labs find it by their env; in this shell: {_exports(folders)}")
    return ExitCode.OK


@cluster.command("down", short_help="End the cluster with everything on it")
def down() -> int:
    """End the cluster, its nodes and pods, and remove its files. The learner's files and progress stay."""
    from windlass.labs.lab_cluster import cluster_down  # noqa: PLC0415 - as above

    there = cluster_down(lab_folders().cluster)
    print("the cluster is down" if there else "there is no cluster")
    return ExitCode.OK


@cluster.command("status", short_help="Show the state of the cluster")
def status(
    output: Annotated[_Form, typer.Option("-o", "--output", help="Output format.")] = _Form.TEXT,
) -> int:
    """Show whether the cluster is up, with its nodes and its operator. Exits with 1 if it does not take jobs."""
    from windlass.labs.lab_cluster import cluster_status  # noqa: PLC0415 - as above

    folders = lab_folders()
    found = cluster_status(folders.cluster)
    if output is _Form.JSON:
        print(as_json(_row(found, folders)))
    else:
        print("\n".join(_lines(found, folders)))
    return ExitCode.OK if found.takes_jobs else ExitCode.FAILED


def _lines(found: LabClusterStatus, folders: LabFolders) -> list[str]:
    state, running = found.cluster.state.value, found.cluster.running
    if running is None:
        step = {"starting": f": {found.cluster.step}", "killed": ": its process was ended"}.get(state, "")
        return [
            f"the cluster is {state}{step}",
            *([] if state == "starting" else ["start it: windlass lab cluster up"]),
        ]
    operator = f"led by {found.operator}" if found.operator else "without a leader"
    health = (
        found.trouble or f"{found.nodes_ready} of {pluralize(len(running.nodes), 'node')} ready, operator {operator}"
    )
    return [
        f"the cluster is {state} (pid {running.pid}): {_nodes(running)}",
        health,
        f"logs: {folders.cluster}",
        f"in this shell: {_exports(folders)}",
    ]


def _row(found: LabClusterStatus, folders: LabFolders) -> dict[str, Any]:
    running = found.cluster.running
    return {
        "state": found.cluster.state.value,
        "step": found.cluster.step,
        "nodes_ready": found.nodes_ready,
        "operator": found.operator,
        "trouble": found.trouble,
        "kubeconfig": str(folders.cluster_kubeconfig),
        "running": asdict(running) if running else None,
    }


def _nodes(running: Running) -> str:
    kind = "real nodes" if running.real else "fake nodes, on which no container runs"
    return f"{len(running.nodes)} {kind}, with {pluralize(running.gpus, 'declared GPU')} each"


def _exports(folders: LabFolders) -> str:
    return f'export KUBECONFIG="{folders.cluster_kubeconfig}" PATH="{folders.cluster_programs}:$PATH"'


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
