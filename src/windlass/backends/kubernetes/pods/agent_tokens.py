"""Tokens with which an agent proves to which pod it belongs: a random word in an annotation of the pod.

A client that may read a pod may read its environment too: a Secret would hide nothing more, and require one more
permission.
"""

from __future__ import annotations

import secrets
from typing import Any

from windlass.backends.kubernetes.client.objects import Pod
from windlass.jobs.kubernetes.labels import TOKEN


def with_token(pod: dict[str, Any]) -> dict[str, Any]:
    """Returns the pod manifest with a token of its own, if it asks for one. The given manifest is not changed."""
    about = pod["metadata"]
    annotations = about.get("annotations") or {}
    if annotations.get(TOKEN) != "":
        return pod
    return {**pod, "metadata": {**about, "annotations": {**annotations, TOKEN: secrets.token_urlsafe(24)}}}


def is_token_of(pod: Pod, token: object) -> bool:
    """Tells whether a token is that of an agent of this pod."""
    wanted = pod.metadata.annotations.get(TOKEN, "")
    return bool(wanted) and isinstance(token, str) and secrets.compare_digest(wanted.encode(), token.encode())
