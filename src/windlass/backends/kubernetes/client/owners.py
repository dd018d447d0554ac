"""Which object made another one and answers for it: of a manifest, and of a pod that was seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.backends.kubernetes.client.objects import Pod


def owner_uid(manifest: Mapping[str, Any]) -> str:
    """The uid of the object that controls this one, "" if none does."""
    owners = manifest["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), "")


def controller_of(pod: Pod) -> str:
    """The uid of the object that made it and answers for it, "" if nobody does."""
    return next((owner.uid for owner in pod.metadata.owner_references if owner.controller), "")
