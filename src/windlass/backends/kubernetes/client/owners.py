"""The controlling owner of an object, by `ownerReferences` of its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def owner_uid(manifest: Mapping[str, Any]) -> str:
    """Returns the uid of the object that controls this one; "" for none."""
    owners = manifest["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), "")
