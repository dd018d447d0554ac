"""A node as the core has it: what is left of it for gangs, who may go there, and where it stands.

Sources: Kubernetes' well-known labels, annotations and taints; the scheduler's NodeUnschedulable and TaintToleration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.backends.kubernetes.client.objects import Node as NodeObject
from windlass.backends.kubernetes.cluster.node_capacity import capacity, gpu_kind, model_of
from windlass.backends.kubernetes.cluster.pods import amounts
from windlass.backends.kubernetes.cluster.topology_levels import Level, place
from windlass.core.model.node import Node, Taint
from windlass.core.model.resources import GPU_KIND, GPU_TYPE, Resources, is_exclusive
from windlass.jobs.kubernetes.pods.pod_placement import NODE_NAME
from windlass.jobs.kubernetes.status.status_times import milliseconds

CORDONED = "windlass.dev/cordoned"
"""An annotation: why its node was cordoned, in words."""
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_DOWN = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_KEEPS_AWAY = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class View:
    """What a node's picture depends on besides the node: if this changes, all of them do."""

    levels: tuple[Level, ...] = ()


def node(seen: NodeObject, taken: Resources, view: View) -> Node:
    """`taken` is what others take of it (`Occupancy.taken`). Costs some 20 µs."""
    allocatable = amounts(seen.status.allocatable)
    kind = gpu_kind(allocatable)
    ready = is_ready(seen)
    return Node(
        name=seen.metadata.name,
        capacity=capacity(allocatable, taken, kind),
        exclusive_in_use=tuple(sorted(filter(is_exclusive, taken))),
        labels=_labels(seen, kind),
        taints=tuple(_taints(seen, ready=ready)),
        place=place(view.levels, seen.metadata.name, seen.metadata.labels),
        cordoned=_cordoned(seen),
        ready=ready and not is_dead(seen),
        unreachable_since=None if ready else _unreachable_since(seen),
        lost=is_dead(seen),
    )


def _unreachable_since(seen: NodeObject) -> int | None:
    """The last transition of its Ready condition, in ms."""
    times = (each.last_transition_time for each in seen.status.conditions if each.type == "Ready")
    return next((milliseconds(at) for at in times if at), None)


def is_ready(seen: NodeObject) -> bool:
    """Whether its kubelet says so, and was heard of late enough for the node controller to believe it."""
    return any(each.type == "Ready" and each.status == "True" for each in seen.status.conditions)


def is_dead(seen: NodeObject) -> bool:
    """Whether an administrator declares by a taint that nothing runs on a node any more (KEP-2268)."""
    return any(taint.key == _OUT_OF_SERVICE for taint in seen.spec.taints)


def same(before: NodeObject, after: NodeObject) -> bool:
    """Whether two states of one node make the same picture: most news of a node are its heartbeats."""
    return (
        before.metadata.labels == after.metadata.labels
        and before.status.allocatable == after.status.allocatable
        and is_ready(before) == is_ready(after)
        and before.spec == after.spec
        and before.metadata.deletion_timestamp == after.metadata.deletion_timestamp
        and before.metadata.annotations.get(CORDONED) == after.metadata.annotations.get(CORDONED)
    )


def _labels(seen: NodeObject, kind: str) -> Mapping[str, str]:
    """Its own, its name for terms that ask for it, and what its GPUs are."""
    model = model_of(seen.metadata.labels)
    besides = {GPU_TYPE: model} if model else {}
    return {**seen.metadata.labels, NODE_NAME: seen.metadata.name, GPU_KIND: kind, **besides}


def _taints(seen: NodeObject, *, ready: bool) -> Sequence[Taint]:
    """Those that keep pods away, without those that only repeat that it is cordoned or down."""
    repeated = (_UNSCHEDULABLE, *(() if ready else _DOWN))
    return [
        Taint(taint.key, taint.value, taint.effect)
        for taint in seen.spec.taints
        if taint.effect in _KEEPS_AWAY and taint.key not in repeated
    ]


def _cordoned(seen: NodeObject) -> str:
    """Why nothing new may start there, "" if it may."""
    if seen.metadata.deletion_timestamp:
        return "being deleted"
    if seen.spec.unschedulable:
        return seen.metadata.annotations.get(CORDONED) or "cordoned in the cluster; kubectl uncordon takes it back"
    return ""
