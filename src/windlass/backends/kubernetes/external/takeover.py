"""What an earlier controller has done with the pods of a group, as these tell it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.external import binding_annotations
from windlass.backends.kubernetes.external.binding_annotations import Decision
from windlass.backends.kubernetes.external.external_gang import waits

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Found:
    """Pods that were decided on together."""

    name: str
    """The gang's, within its namespace; "" if nobody tells."""
    pods: Mapping[str, Pod]
    """By uid: whoever lives, bound or yet to be bound."""
    nodes: Mapping[str, str]
    """By uid: where each is, or was to go."""
    whole: bool
    """Every one is on its node."""
    possible: bool = True
    """Those that are not can yet be brought there."""


def found(pods: Mapping[str, Pod], usable: Callable[[str], bool]) -> Iterator[Found]:
    """The gangs of one group of which anybody is on a node.

    `pods`: all of the group, by uid. `usable`: whether a pod may still be bound to a node.
    """
    bound = [pod for pod in pods.values() if pod.spec.node_name and pod.status.phase not in _ENDED]
    for first, living in binding_annotations.together(bound).items():
        decision = binding_annotations.decision_on(pods[first]) if first in pods else None
        yield _found(decision, living, pods, usable)


def _found(
    decision: Decision | None, living: Sequence[Pod], pods: Mapping[str, Pod], usable: Callable[[str], bool]
) -> Found:
    here = {pod.metadata.uid: pod for pod in living}
    nodes = {uid: pod.spec.node_name for uid, pod in here.items()}
    name = decision.name if decision else ""
    planned = decision.nodes if decision else {}
    missing = {uid: node for uid, node in planned.items() if uid not in here and waits(pods.get(uid))}
    if not missing:
        return Found(name, here, nodes, whole=True)
    rest = {uid: pods[uid] for uid in missing}
    lost = any(uid not in here and uid not in missing for uid in planned)
    moved = any(nodes[uid] != planned.get(uid, nodes[uid]) for uid in here)
    possible = not (lost or moved) and all(map(usable, missing.values()))
    return Found(name, here | rest, nodes | missing, whole=False, possible=possible)
