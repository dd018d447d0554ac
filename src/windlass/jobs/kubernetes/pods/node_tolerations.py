"""Tolerations that Windlass adds to pods: for the taint of GPU nodes, and for those of unreachable nodes.

A pod that requests GPUs tolerates a taint with their resource's name, such as `nvidia.com/gpu`, by which clouds keep
other pods away. Source: the admission plugin ExtendedResourceToleration, which not every cluster has.
A pod stays on an unreachable node as long as its job's grace lasts. Sources: the admission plugin
DefaultTolerationSeconds, which adds both tolerations with 300 s to a pod without them; the taint manager (NoExecute),
which deletes the pod after that time. A shorter grace needs none: the controller stops the gang earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from windlass.core.nodes.node_health import UNREACHABLE_GRACE_MS
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField
from windlass.jobs.kubernetes.pods.pod_requests import gpu_resources

UNREACHABLE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_MARGIN_S = 60
"""Seconds beyond the grace: the controller is to declare the node lost first."""


def with_node_tolerations(spec: Manifest, grace: int) -> Manifest:
    """The pod spec with a toleration for each taint of GPU nodes and of unreachable nodes that it does not tolerate.

    `grace`: ms for which a node of the job may be unreachable.
    """
    own = spec.get("tolerations") or []
    added = [*_for_gpu_nodes(spec, own), *_for_unreachable_nodes(grace, own)]
    return {**spec, "tolerations": [*own, *added]} if added else spec


def _for_gpu_nodes(spec: Manifest, own: Iterable[dict[str, Any]]) -> Iterator[Manifest]:
    for key in gpu_resources(ManifestField(spec)):
        if not any(_tolerates(each, key, "NoSchedule") and each.get("operator") == "Exists" for each in own):
            yield {"key": key, "operator": "Exists", "effect": "NoSchedule"}


def _for_unreachable_nodes(grace: int, own: Iterable[dict[str, Any]]) -> Iterator[Manifest]:
    if grace <= UNREACHABLE_GRACE_MS:
        return
    seconds = -(-grace // 1000) + _MARGIN_S
    for key in UNREACHABLE_TAINTS:
        if not any(_tolerates(each, key, "NoExecute") for each in own):
            yield {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


def _tolerates(toleration: dict[str, Any], key: str, effect: str) -> bool:
    """Tells whether the admission plugins accept a toleration as one for this taint."""
    return toleration.get("key") in (None, "", key) and toleration.get("effect") in (None, "", effect)
