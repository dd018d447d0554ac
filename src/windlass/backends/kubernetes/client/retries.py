"""Rules for retries of requests. Pure.

A request that was certainly not carried out is retried in any case; one that may have been, only if a repetition has no
further effect; a refusal that would come again is reported at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.wire import exponential_backoff

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


def is_repeatable(method: str, path: str, body: Any, content_type: str) -> bool:
    """Tells whether a repetition of the request has no further effect.

    True for a create of an object with a name: the second is answered with AlreadyExists. True for a deletion with uid
    or resource version, since another object of the same name may exist; for a JSON patch that tests first. `body` is
    None if unknown, which counts as no.
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


def retry_delay(attempt: int, retry_after: float | None, jitter: float) -> float:
    """Returns the seconds to wait after the `attempt`-th failure (from 0). `jitter` in [0, 1) spreads clients.

    A time that the server asked for is never shortened, and spread by up to a quarter.
    """
    if retry_after is not None:
        return retry_after * (1 + jitter / 4) + FIRST_PAUSE * jitter
    return exponential_backoff(attempt, FIRST_PAUSE, LONGEST_PAUSE) * (1 + jitter) / 2


def _tests(body: Any) -> bool:
    return isinstance(body, list) and any(isinstance(step, Mapping) and step.get("op") == "test" for step in body)
