"""By what an agent proves whose it is: a random word in an annotation of its own pod.

Whoever may read a pod may read its environment too: a Secret would hide nothing more, and cost a permission.
"""

from __future__ import annotations

import secrets
from typing import Any

from windlass.backends.kubernetes.client.objects import Pod
from windlass.jobs.kubernetes.labels import TOKEN


def with_token(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod to be, with a token of its own if it is to have one. What it shares with others is not changed."""
    about = pod["metadata"]
    annotations = about.get("annotations") or {}
    if annotations.get(TOKEN) != "":
        return pod
    return {**pod, "metadata": {**about, "annotations": {**annotations, TOKEN: secrets.token_urlsafe(24)}}}


def is_of(pod: Pod, token: object) -> bool:
    """Whether whoever says this token is an agent of that pod."""
    wanted = pod.metadata.annotations.get(TOKEN, "")
    return bool(wanted) and isinstance(token, str) and secrets.compare_digest(wanted.encode(), token.encode())
