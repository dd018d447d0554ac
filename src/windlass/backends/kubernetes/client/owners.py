"""The controlling owner of an object, by `ownerReferences` of its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class OwnerKey(NamedTuple):
    """Namespace and uid of an object that controls others.

    Any writer may put any uid into `ownerReferences`, but an object owns objects of its own namespace only. So the
    namespace is always that of the owned object, and a key matches an owner only in that namespace.
    """

    namespace: str
    uid: str


def owner_of(manifest: Mapping[str, Any]) -> OwnerKey | None:
    """Returns the key of the object that controls this one; None for none."""
    metadata = manifest["metadata"]
    owners = metadata.get("ownerReferences") or ()
    uid = next((owner["uid"] for owner in owners if owner.get("controller")), "")
    return OwnerKey(metadata.get("namespace") or "", uid) if uid else None
