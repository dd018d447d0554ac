"""Which ranks the others wait for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_SLOWER = 1.3
"""Times the median: noise between ranks stays below this on quiet machines."""
_LEAST = 5.0
"""Milliseconds: less is not worth a word."""


def slow_ranks(busy: Sequence[float], median: float) -> tuple[int, ...]:
    """Ranks that compute longer than most. `busy`: milliseconds of a step without waiting for others, by rank."""
    limit = max(median * _SLOWER, median + _LEAST)
    return tuple(rank for rank, spent in enumerate(busy) if spent > limit)
