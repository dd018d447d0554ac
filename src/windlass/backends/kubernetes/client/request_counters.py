"""Plain numbers of what was asked of the API server, for whoever shows them. Nothing here decides anything."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Seconds: upper bounds of a histogram's buckets."""


@dataclass(slots=True)
class Histogram:
    """How often something took how long."""

    bounds: tuple[float, ...] = BOUNDS
    counts: list[int] = field(default_factory=list)
    """One for each bound, and one for what was longer; each counted once."""
    total: float = 0.0
    """Seconds in all."""

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, seconds: float) -> None:
        """It took so long once more."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds


@dataclass(slots=True)
class RequestCounters:
    """Of one connection. `asked` and `watched` are its hooks."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Attempts by verb and status; "none" where no answer came."""
    bindings: Histogram = field(default_factory=Histogram)
    """How long the API server took to put a pod on its node, by a binding or as it was made: as many as were put."""
    watches: Counter[str] = field(default_factory=Counter)
    """Watches that were begun, by resource: the first, and one more each time it ended."""

    def asked(self, method: str, path: str, status: int | None, seconds: float) -> None:
        """A request was answered, or was not."""
        self.requests[method, "none" if status is None else str(status)] += 1
        if status == 201 and path.endswith("/binding"):
            self.bindings.observe(seconds)

    def watched(self, path: str) -> None:
        """A watch was begun."""
        self.watches[path.rpartition("/")[2]] += 1
