"""What is written on pods as they are bound, so that whoever takes over knows which were decided on together.

The first pod of a gang has the whole decision, every other one the uid of that first pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.gangs.stored_state import ANNOTATION


class _Written(msgspec.Struct, frozen=True, omit_defaults=True):
    first: str = ""
    name: str = ""
    nodes: dict[str, list[str]] = {}


_decode = msgspec.json.Decoder(_Written).decode


@dataclass(frozen=True, slots=True)
class Decision:
    """That the pods of these uids go to these nodes."""

    name: str
    """The gang's, within its namespace."""
    nodes: Mapping[str, str]


def whole(decision: Decision) -> Mapping[str, str]:
    """For the first pod."""
    by_node: dict[str, list[str]] = {}
    for uid, node in decision.nodes.items():
        by_node.setdefault(node, []).append(uid)
    return _annotation(_Written(name=decision.name, nodes=by_node))


def part(first: str) -> Mapping[str, str]:
    """For the others. `first`: the uid of the first."""
    return _annotation(_Written(first=first))


def first_of(pod: Pod) -> str:
    """The uid of the pod that has the decision by which this one was bound; its own if it was bound by itself."""
    return _read(pod).first or pod.metadata.uid


def decision_on(pod: Pod) -> Decision | None:
    """The decision that this pod has, if it has one."""
    read = _read(pod)
    nodes = {uid: node for node, uids in read.nodes.items() for uid in uids}
    return Decision(read.name, nodes) if pod.metadata.uid in nodes else None


def _read(pod: Pod) -> _Written:
    """What somebody else has written there says nothing."""
    try:
        return _decode(pod.metadata.annotations.get(ANNOTATION, "{}"))
    except msgspec.DecodeError:
        return _Written()


def _annotation(written: _Written) -> Mapping[str, str]:
    return {ANNOTATION: msgspec.json.encode(written).decode()}


def together(pods: Sequence[Pod]) -> Mapping[str, Sequence[Pod]]:
    """Pods by the first pod of the decision that bound them."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        found.setdefault(first_of(pod), []).append(pod)
    return found
