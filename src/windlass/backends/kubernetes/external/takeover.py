"""Reads from the pods of a group which gangs an earlier controller has bound, completely or in part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.external import binding_annotations
from windlass.backends.kubernetes.external.binding_annotations import BindingDecision
from windlass.backends.kubernetes.external.external_gang import waits
from windlass.jobs.kubernetes.external.membership import controller


@dataclass(frozen=True, slots=True)
class BoundGang:
    """Pods that were decided on together."""

    name: str
    """Name of the gang within its namespace; "" if no pod tells."""
    pods: Mapping[str, Pod]
    """By uid: the living pods, bound or yet to be bound."""
    nodes: Mapping[str, str]
    """By uid: the node of each, or the one chosen for it."""
    whole: bool
    """Whether every pod is on its node."""
    possible: bool = True
    """Whether the pods that are not bound yet can still be bound to the nodes chosen for them."""

    @property
    def bound(self) -> Sequence[Pod]:
        """Its pods on nodes."""
        return [pod for pod in self.pods.values() if pod.spec.node_name]

    @property
    def is_created_again(self) -> bool:
        """Whether controllers create all bound pods again if they are deleted."""
        return all(controller(pod) is not None for pod in self.bound)

    def without_unbound(self) -> BoundGang:
        """Returns its bound pods as a gang that is whole."""
        pods = {pod.metadata.uid: pod for pod in self.bound}
        return BoundGang(self.name, pods, {uid: self.nodes[uid] for uid in pods}, whole=True)


def find_bound_gangs(pods: Mapping[str, Pod], usable: Callable[[str], bool], key: bytes) -> Iterator[BoundGang]:
    """Yields the gangs of one group of which at least one pod is on a node.

    `pods`: all pods of the group, by uid. `usable`: tells whether a pod may still be bound to a node. `key`: by which
    decisions are signed.
    """
    bound = [pod for pod in pods.values() if pod.spec.node_name and not pod.status.has_ended]
    for first, living in binding_annotations.group_by_decision(bound).items():
        decision = binding_annotations.decision_on(pods[first], key) if first in pods else None
        yield _found(decision, living, pods, usable)


def _found(
    decision: BindingDecision | None, living: Sequence[Pod], pods: Mapping[str, Pod], usable: Callable[[str], bool]
) -> BoundGang:
    here = {pod.metadata.uid: pod for pod in living}
    nodes = {uid: pod.spec.node_name for uid, pod in here.items()}
    name = decision.name if decision else ""
    planned = decision.nodes if decision else {}
    missing = {uid: node for uid, node in planned.items() if uid not in here and waits(pods.get(uid))}
    if not missing:
        return BoundGang(name, here, nodes, whole=True)
    rest = {uid: pods[uid] for uid in missing}
    lost = any(uid not in here and uid not in missing and not _has_succeeded(pods.get(uid)) for uid in planned)
    moved = any(nodes[uid] != planned.get(uid, nodes[uid]) for uid in here)
    possible = not (lost or moved) and all(map(usable, missing.values()))
    return BoundGang(name, here | rest, nodes | missing, whole=False, possible=possible)


def _has_succeeded(pod: Pod | None) -> bool:
    """Tells whether a pod has done its part before the other pods were bound: the gang is completed without it."""
    return pod is not None and pod.status.phase == "Succeeded"
