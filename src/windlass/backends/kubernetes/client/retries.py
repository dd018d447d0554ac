"""Which requests may be sent again after what trouble, and when. Pure.

Three cases: a request that was surely not carried out is sent again whatever it is; one that may have been, only if
doing it twice does nothing that once did not; and a refusal that would come again is told at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

READS = frozenset({"GET", "HEAD", "OPTIONS"})
JSON, MERGE_PATCH, JSON_PATCH, STRATEGIC_PATCH, APPLY_PATCH = (
    "application/json",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
"""Seconds. The pause doubles from the first to the longest."""


def repeatable(method: str, path: str, body: Any, content_type: str) -> bool:
    """Whether sending it twice does nothing that once did not.

    A create is, if its object has a name: the second comes back as AlreadyExists. A deletion is, if it says by uid or
    resource version which object is meant, as another of the same name may have come; a JSON patch, if it tests first.
    `body` is None where it is not known, which counts as no.
    """
    if method in READS or method == "PUT":
        return True
    if method == "PATCH":
        return content_type != JSON_PATCH or _tests(body)
    if not isinstance(body, Mapping):
        return False
    if method == "DELETE":
        return bool(body.get("preconditions"))
    metadata = body.get("metadata")
    return path.endswith(("/binding", "/eviction")) or (isinstance(metadata, Mapping) and bool(metadata.get("name")))


def pause(attempt: int, retry_after: float | None, jitter: float) -> float:
    """Seconds to wait after the `attempt`-th failure (from 0). `jitter` in [0, 1) spreads those who failed together.

    What the server asked for is never undercut, and spread by up to a quarter.
    """
    if retry_after is not None:
        return retry_after * (1 + jitter / 4) + FIRST_PAUSE * jitter
    return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(attempt, 16)) * (1 + jitter) / 2)


def _tests(body: Any) -> bool:
    return isinstance(body, list) and any(isinstance(step, Mapping) and step.get("op") == "test" for step in body)
