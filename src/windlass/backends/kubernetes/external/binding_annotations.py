"""Annotations of bound pods: a controller that takes over reads from them which pods were decided on together.

The first pod of a gang carries the whole decision, every other one the uid of that first pod. The owner of the pods may
write their annotations, and the pods that are missing are bound by the decision without another look at quotas, taints
and order: so it is signed by a key that only the operator has, and without its signature it does not count.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.gangs.stored_state import ANNOTATION


class _Written(msgspec.Struct, frozen=True, omit_defaults=True):
    first: str = ""
    name: str = ""
    nodes: dict[str, list[str]] = {}
    signature: str = ""


_decode = msgspec.json.Decoder(_Written).decode


@dataclass(frozen=True, slots=True)
class BindingDecision:
    """Decision to bind the pods of these uids to these nodes."""

    name: str
    """Name of the gang within its namespace."""
    nodes: Mapping[str, str]


def decision_annotation(decision: BindingDecision, key: bytes) -> Mapping[str, str]:
    """Returns the annotation of the first pod. `key`: the operator's, for the signature."""
    by_node: dict[str, list[str]] = {}
    for uid, node in decision.nodes.items():
        by_node.setdefault(node, []).append(uid)
    written = _Written(name=decision.name, nodes=by_node)
    return _annotation(msgspec.structs.replace(written, signature=_sign(written, key)))


def reference_annotation(first: str) -> Mapping[str, str]:
    """Returns the annotation of every other pod. `first`: the uid of the first."""
    return _annotation(_Written(first=first))


def first_of(pod: Pod) -> str:
    """Returns the uid of the pod that carries the decision on this one; its own if it was bound alone."""
    return _read(pod).first or pod.metadata.uid


def decision_on(pod: Pod, key: bytes) -> BindingDecision | None:
    """Returns the decision that this pod carries, if any that was signed by `key`."""
    read = _read(pod)
    if not hmac.compare_digest(read.signature.encode(), _sign(read, key).encode()):
        return None
    nodes = {uid: node for node, uids in read.nodes.items() for uid in uids}
    return BindingDecision(read.name, nodes) if pod.metadata.uid in nodes else None


def _read(pod: Pod) -> _Written:
    """Reads the annotation; a value that cannot be decoded counts as none."""
    try:
        return _decode(pod.metadata.annotations.get(ANNOTATION, "{}"))
    except msgspec.DecodeError:
        return _Written()


def _sign(written: _Written, key: bytes) -> str:
    text = msgspec.json.encode(["binding decision", written.name, written.nodes])
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def _annotation(written: _Written) -> Mapping[str, str]:
    return {ANNOTATION: msgspec.json.encode(written).decode()}


def group_by_decision(pods: Sequence[Pod]) -> Mapping[str, Sequence[Pod]]:
    """Groups pods by the first pod of the decision that bound them."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        found.setdefault(first_of(pod), []).append(pod)
    return found
