"""The user's name as the API server knows it, which admission requires where an object names its user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.reviews import review_self
from windlass.backends.port import BackendError
from windlass.jobs.kubernetes.labels import USER


async def api_user(connection: Connection) -> str:
    """Returns the name; "" if the API server does not tell it."""
    try:
        return (await review_self(connection)).user.name
    except BackendError:
        return ""


def with_user(manifest: Mapping[str, Any], user: str) -> dict[str, Any]:
    """Returns the manifest of a job with its user as an annotation; without one if the user is unknown."""
    metadata = manifest["metadata"]
    annotations = {name: text for name, text in (metadata.get("annotations") or {}).items() if name != USER}
    annotations |= {USER: user} if user else {}
    others = {name: value for name, value in metadata.items() if name != "annotations"}
    return {**manifest, "metadata": {**others, **({"annotations": annotations} if annotations else {})}}
