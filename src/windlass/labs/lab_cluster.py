"""The cluster of the workshop: a control plane in the background, with Windlass installed and its operator running."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.client.access import from_kubeconfig
from windlass.backends.kubernetes.client.connection import Connection, find_object
from windlass.backends.kubernetes.client.resources import LEASES, NODES, path
from windlass.controlplane.cluster_folder import ClusterError, ClusterFolder, LastingSettings, Running
from windlass.controlplane.lasting_cluster import LastingState, LastingStatus, down, status, up
from windlass.jobs.kubernetes.operator_names import NAMESPACE
from windlass.labs.errors import LabStateError

IMAGES = ("windlass-examples:1", "alpine:3.10")
"""Images that manifests of labs name. On real nodes each is this machine's Python with torch and MPI."""
EXTERNAL_KIND = "TrainingJob.v1alpha1.windlass.dev"
"""The kind whose Workloads the operator creates for Kueue."""
OPERATOR = "operator"
"""The companion of the control plane, whose log has this name."""
LEADING = "leading, with"
"""Text in that log once the operator decides."""
LEADS_WITHIN_S = 120.0
_PAUSE_S = 0.1
_ANSWER_S = 5.0


@dataclass(frozen=True, slots=True)
class LabClusterStatus:
    """State of the cluster, and of what runs on it."""

    cluster: LastingStatus
    nodes_ready: int = 0
    operator: str = ""
    """The holder of the operator's lease; empty if the operator does not lead."""
    trouble: str = ""
    """The reason why the API server does not answer."""

    @property
    def takes_jobs(self) -> bool:
        """Whether a node is ready, and the operator leads."""
        return bool(self.nodes_ready and self.operator)


def cluster_up(
    root: Path, report: Callable[[str], None], *, real: bool | None = None, kueue: bool = False, gpus: int = 2
) -> Running:
    """Starts the cluster of the workshop in a folder, and waits until it takes jobs. Raises LabStateError.

    `real`: whether nodes run containers; None: where this machine allows it. `gpus`: of each node, declared.
    """
    command = [sys.executable, "-m", "windlass.labs.cluster_operator", str(root.absolute())]
    settings = LastingSettings(
        real=real,
        gpus=gpus,
        images=IMAGES,
        kueue=kueue,
        external_kinds=(EXTERNAL_KIND,),
        companions={OPERATOR: command},
    )
    try:
        # 1. servers and nodes
        running = up(root, settings, report)
        # 2. Windlass
        report("installation of Windlass, and start of its operator")
        _lead_or_end(root)
    except ClusterError as failed:
        is_there = status(root).state in (LastingState.READY, LastingState.STARTING)
        raise LabStateError(f"{failed}\nend it: windlass lab cluster down" if is_there else str(failed)) from failed
    return running


def cluster_down(root: Path) -> bool:
    """Ends the cluster with everything on it, and removes its files. Returns whether there was one."""
    return down(root)


def cluster_status(root: Path) -> LabClusterStatus:
    """State of the cluster in a folder, asked from its API server."""
    found = status(root)
    if found.state is not LastingState.READY:
        return LabClusterStatus(found)
    try:
        return asyncio.run(_ask(root.absolute(), found))
    except BackendError as failed:
        return LabClusterStatus(found, trouble=str(failed))


async def _ask(root: Path, found: LastingStatus) -> LabClusterStatus:
    access = from_kubeconfig(str(ClusterFolder(root).kubeconfig))
    async with Connection(access, within=_ANSWER_S, attempt=_ANSWER_S) as connection:
        nodes = json.loads(await connection.request("GET", path(NODES)))["items"]
        lease = await find_object(connection, LEASES, NAMESPACE, "windlass-operator") or {}
    return LabClusterStatus(found, sum(map(_is_ready, nodes)), lease.get("spec", {}).get("holderIdentity") or "")


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _lead_or_end(root: Path) -> None:
    """Waits until the operator leads; ends the cluster if it does not. Raises ClusterError."""
    try:
        _until_leading(root)
    except BaseException:
        down(root)
        raise


def _until_leading(root: Path) -> None:
    """Waits until the operator leads. Raises ClusterError with the end of its log."""
    log, give_up = ClusterFolder(root).companion_log(OPERATOR), time.monotonic() + LEADS_WITHIN_S
    while LEADING not in (text := _text(log)):
        last = "\n".join(text.splitlines()[-5:])
        if status(root).state is not LastingState.READY:
            raise ClusterError(f"the cluster ended while Windlass was installed\n{last}")
        if time.monotonic() > give_up:
            raise ClusterError(f"the operator does not lead after {LEADS_WITHIN_S:.0f} s; the end of its log:\n{last}")
        time.sleep(_PAUSE_S)


def _text(log: Path) -> str:
    return log.read_text(errors="replace") if log.exists() else ""
