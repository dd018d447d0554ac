"""Counts requests to the API server, for metrics. No decision depends on it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of a histogram's buckets in seconds."""


@dataclass(slots=True)
class Histogram:
    """A histogram of durations."""

    bounds: tuple[float, ...] = BOUNDS
    counts: list[int] = field(default_factory=list)
    """One count for each bound, and one for longer durations; not cumulative."""
    total: float = 0.0
    """Sum of durations in seconds."""

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, seconds: float) -> None:
        """Adds a duration."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds


@dataclass(slots=True)
class RequestCounters:
    """Counters of one connection. `count_request` and `count_watch` are its hooks."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Attempts by verb and status; "none" without an answer."""
    bindings: Histogram = field(default_factory=Histogram)
    """Time that the API server took to bind a pod, by a binding or at its creation."""
    watches: Counter[str] = field(default_factory=Counter)
    """Started watches by resource: the first, and one more for each that ended."""

    def count_request(self, method: str, path: str, status: int | None, seconds: float) -> None:
        """Counts a request with its answer, if any."""
        self.requests[method, "none" if status is None else str(status)] += 1
        if status == 201 and path.endswith("/binding"):
            self.bindings.observe(seconds)

    def count_watch(self, path: str) -> None:
        """Counts a started watch."""
        self.watches[path.rpartition("/")[2]] += 1
