"""Tolerations with which a pod stays on an unreachable node as long as its job's grace lasts.

Sources: the admission plugin DefaultTolerationSeconds, which adds both tolerations with 300 s to a pod without them;
the taint manager (NoExecute), which deletes the pod after that time. A shorter grace needs none: the controller stops
the gang earlier.
"""

from __future__ import annotations

from typing import Any

from windlass.core.nodes.node_health import UNREACHABLE_GRACE_MS
from windlass.jobs.kubernetes.manifest_reader import Manifest

UNREACHABLE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_MARGIN_S = 60
"""Seconds beyond the grace: the controller is to declare the node lost first."""


def with_node_tolerations(spec: Manifest, grace: int) -> Manifest:
    """The pod spec with a toleration for each taint of an unreachable node that it does not tolerate itself.

    `grace`: ms for which a node of the job may be unreachable.
    """
    if grace <= UNREACHABLE_GRACE_MS:
        return spec
    own = spec.get("tolerations") or []
    seconds = -(-grace // 1000) + _MARGIN_S
    missing = [key for key in UNREACHABLE_TAINTS if not any(_tolerates(each, key) for each in own)]
    added = [{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds} for key in missing]
    return {**spec, "tolerations": [*own, *added]} if added else spec


def _tolerates(toleration: dict[str, Any], key: str) -> bool:
    """Tells whether the admission plugin accepts a toleration as one for this taint."""
    return toleration.get("key") in (None, "", key) and toleration.get("effect") in (None, "", "NoExecute")
