"""Windlass's own files: a queue for each workload, and a cluster file with the same queues for the local backend."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from windlass.core.model.job import DEFAULT_QUEUE
from windlass.core.model.node import MIG, MILLI
from windlass.hardware.sharing.modes import Mode
from windlass.hardware.sharing.plan import NodeGroup, SharingPlan, WorkloadPlan
from windlass.hardware.sharing.render.operator_files import used_groups

_API = "windlass.dev/v1alpha1"


def queue_objects(plan: SharingPlan) -> list[dict[str, Any]]:
    """Returns the Queue objects, for a cluster with the operator."""
    return [
        {
            "apiVersion": _API,
            "kind": "Queue",
            "metadata": {"name": queue["name"]},
            "spec": {name: value for name, value in queue.items() if name != "name"},
        }
        for queue in _queues(plan)
    ]


def cluster_file(plan: SharingPlan) -> dict[str, Any]:
    """Returns a cluster file: the nodes of each group, and the queues."""
    return {"nodes": [node for group in used_groups(plan) for node in _nodes(group)], "queues": _queues(plan)}


def _queues(plan: SharingPlan) -> list[dict[str, Any]]:
    """Returns the queues as a cluster file has them. The default queue may use the GPUs that no workload has."""
    queues = [_queue(plan, each) for each in plan.workloads if each.pods]
    total = sum(pool.nodes * pool.gpus for pool in plan.request.pools)
    held = sum(queue["quota"]["gpu"] for queue in queues if queue["name"] != DEFAULT_QUEUE)
    if all(queue["name"] != DEFAULT_QUEUE for queue in queues):
        queues.append({"name": DEFAULT_QUEUE, "quota": {"gpu": max(0, total - held)}})
    return queues


def _queue(plan: SharingPlan, each: WorkloadPlan) -> dict[str, Any]:
    """Returns a queue whose quota holds all placed pods: parts of GPUs count by their share of the compute."""
    gpus = 0.0
    for pods in each.pods:
        pool = plan.request.pools[pods.option.pool]
        part = pods.use.share(pool) if pods.use.mode is Mode.MIG else 1 / pods.use.replicas
        gpus += pods.number * part * each.workload.gpus
    queue: dict[str, Any] = {"name": each.workload.name, "quota": {"gpu": math.ceil(gpus - 1e-9)}}
    return queue if each.workload.kind.is_service else {**queue, "max_running": each.workload.number - each.refused}


def _nodes(group: NodeGroup) -> Iterator[dict[str, Any]]:
    """Yields the nodes of a group; a node with MIG and shared GPUs is two, as a node is shared in one way."""
    shared = group.replicas > 1
    rest = group.pool.gpus - len(group.layouts)
    if group.layouts:
        yield _node(group, "", group.pool.gpus if not shared else len(group.layouts), MIG)
    if shared and rest:
        yield _node(group, "-shared" if group.layouts else "", rest, MILLI)
    elif not group.layouts:
        yield _node(group, "", rest, "")


def _node(group: NodeGroup, suffix: str, gpus: int, sharing: str) -> dict[str, Any]:
    geometry = group.pool.gpu.geometry
    node = {
        "name": f"{group.name}{suffix}-n",
        "count": group.nodes,
        "gpus": gpus,
        "gpu_type": geometry.model if sharing == MIG and geometry else group.pool.gpu.name,
        "labels": {"windlass.dev/gpu-sharing": group.name},
    }
    return {**node, "sharing": sharing} if sharing else node
