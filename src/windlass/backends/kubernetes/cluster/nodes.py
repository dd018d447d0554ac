"""Converts a node to the core's Node: free capacity, labels, taints, topology.

Sources: Kubernetes' well-known labels, annotations and taints; the scheduler's NodeUnschedulable and TaintToleration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.backends.kubernetes.client.objects import Node as NodeObject
from windlass.backends.kubernetes.cluster.node_capacity import gang_capacity, gpu_kind, model_of
from windlass.backends.kubernetes.cluster.pods import amounts
from windlass.backends.kubernetes.cluster.topology_levels import Level, place
from windlass.core.model.node import Node, Taint
from windlass.core.model.resources import GPU_KIND, GPU_TYPE, Resources, is_exclusive
from windlass.hardware.network.automatic import NodeFabric
from windlass.jobs.kubernetes.pods.node_tolerations import UNREACHABLE_TAINTS
from windlass.jobs.kubernetes.pods.pod_placement import NODE_NAME
from windlass.jobs.kubernetes.pods.pod_requests import is_gpu
from windlass.jobs.kubernetes.status.status_times import milliseconds

CORDONED = "windlass.dev/cordoned"
"""Annotation with the reason for which a node was cordoned."""
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_KEEPS_AWAY = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class NodeConversion:
    """Facts that the conversion of every node depends on: if they change, all nodes are converted again."""

    levels: tuple[Level, ...] = ()


def node(seen: NodeObject, taken: Resources, view: NodeConversion) -> Node:
    """Converts a node. `taken`: resources used by other pods (`Occupancy.taken`). Costs about 20 µs."""
    allocatable = amounts(seen.status.allocatable)
    kind = gpu_kind(allocatable)
    ready = is_ready(seen)
    return Node(
        name=seen.metadata.name,
        capacity=gang_capacity(allocatable, taken, kind),
        exclusive_in_use=tuple(sorted(filter(is_exclusive, taken))),
        labels=_labels(seen, kind),
        taints=tuple(_taints(seen, ready=ready)),
        place=place(view.levels, seen.metadata.name, seen.metadata.labels),
        cordoned=_cordoned(seen),
        ready=ready and not is_dead(seen),
        unreachable_since=None if ready else _unreachable_since(seen),
        lost=is_dead(seen),
    )


def fabric_of(seen: NodeObject) -> NodeFabric:
    """Returns what a node shows of its network: labels, allocatable devices, and the number of its GPUs."""
    devices = {name: count for name, count in amounts(seen.status.allocatable).items() if "/" in name}
    gpus = sum(count for name, count in devices.items() if is_gpu(name))
    return NodeFabric(seen.metadata.labels, devices, gpus)


def _unreachable_since(seen: NodeObject) -> int | None:
    """Returns the last transition of its Ready condition, in ms."""
    times = (each.last_transition_time for each in seen.status.conditions if each.type == "Ready")
    return next((milliseconds(at) for at in times if at), None)


def is_ready(seen: NodeObject) -> bool:
    """Tells whether the kubelet reports ready, recently enough for the node controller."""
    return any(each.type == "Ready" and each.status == "True" for each in seen.status.conditions)


def is_dead(seen: NodeObject) -> bool:
    """Tells whether an administrator has declared the node out of service by a taint (KEP-2268)."""
    return any(taint.key == _OUT_OF_SERVICE for taint in seen.spec.taints)


def is_same_to_core(before: NodeObject, after: NodeObject) -> bool:
    """Tells whether two states convert to the same Node: most updates of a node are heartbeats."""
    return (
        before.metadata.labels == after.metadata.labels
        and before.status.allocatable == after.status.allocatable
        and is_ready(before) == is_ready(after)
        and before.spec == after.spec
        and before.metadata.deletion_timestamp == after.metadata.deletion_timestamp
        and before.metadata.annotations.get(CORDONED) == after.metadata.annotations.get(CORDONED)
    )


def _labels(seen: NodeObject, kind: str) -> Mapping[str, str]:
    """Returns its labels, with its name and GPU facts for terms that refer to them."""
    model = model_of(seen.metadata.labels)
    besides = {GPU_TYPE: model} if model else {}
    return {**seen.metadata.labels, NODE_NAME: seen.metadata.name, GPU_KIND: kind, **besides}


def _taints(seen: NodeObject, *, ready: bool) -> Sequence[Taint]:
    """Returns the taints that exclude pods, without those that only repeat that it is cordoned or down."""
    repeated = (_UNSCHEDULABLE, *(() if ready else UNREACHABLE_TAINTS))
    return [
        Taint(taint.key, taint.value, taint.effect)
        for taint in seen.spec.taints
        if taint.effect in _KEEPS_AWAY and taint.key not in repeated
    ]


def _cordoned(seen: NodeObject) -> str:
    """Returns the reason for which nothing new may start there; "" for none."""
    if seen.metadata.deletion_timestamp:
        return "being deleted"
    if seen.spec.unschedulable:
        return seen.metadata.annotations.get(CORDONED) or "cordoned in the cluster; kubectl uncordon takes it back"
    return ""
