"""The controlling owner of an object, by `ownerReferences`: of a manifest, and of a pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.backends.kubernetes.client.objects import Pod


def owner_uid(manifest: Mapping[str, Any]) -> str:
    """Returns the uid of the object that controls this one; "" for none."""
    owners = manifest["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), "")


def controller_of(pod: Pod) -> str:
    """Returns the uid of the controller of a pod; "" for none."""
    return next((owner.uid for owner in pod.metadata.owner_references if owner.controller), "")
