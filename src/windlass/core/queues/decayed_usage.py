"""Decayed usage of a queue: an average in which past usage counts half after each half-life.

Integers throughout, so that every machine computes the same. The average moves towards the current usage:
`average · 2^(-t/half-life) + held · (1 - 2^(-t/half-life))`; for constant usage it converges to that usage.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import isqrt

from windlass.core.model.queue import PastUsage

SCALE = 1 << 40
"""`PastUsage.amounts` count 2^-40 of a resource's unit: 1 ms of one GPU is visible in a half-life of years."""

_ONE = 1 << 62
_BITS = 6
_STEPS = 1 << _BITS
_DIGITS = 4
"""Time is split into half-lives, 64ths, 64ths of those and so on, four times: 2^-24 of a half-life (36 ms of a week).
"""


def advance_usage(past: PastUsage | None, held: Mapping[str, int], half_life: int, now: int) -> PastUsage:
    """Returns the decayed usage at `now`, if `held` was constant since `past.at`. Times in ms; None: no past.

    Two steps give the same as one, except for a rounding of 2^-24. A clock that goes back changes nothing.
    """
    if past is None:
        return PastUsage(now, {})
    if now <= past.at:
        return past
    factor = decay_factor(now - past.at, half_life)
    names = past.amounts.keys() | held.keys()
    after = {name: _approach(past.amounts.get(name, 0), held.get(name, 0) * SCALE, factor) for name in sorted(names)}
    return PastUsage(now, {name: amount for name, amount in after.items() if amount})


def average_usage(past: PastUsage) -> dict[str, int]:
    """Returns the average in the resources' own units, rounded."""
    return {name: (amount + SCALE // 2) // SCALE for name, amount in past.amounts.items()}


@lru_cache(maxsize=256)
def decay_factor(time: int, half_life: int) -> int:
    """Returns 2^(-time/half_life), in 2^-62; linear between two entries of the last table."""
    whole, rest = divmod(time, half_life)
    if whole >= 62:
        return 0
    factor = _ONE >> whole
    for table in _tables():
        digit, rest = divmod(rest * _STEPS, half_life)
        factor = factor * table[digit] >> 62
    step = _ONE - _tables()[-1][1]
    return factor - (factor * (step * rest // half_life) >> 62)


def _approach(average: int, towards: int, factor: int) -> int:
    """Rounds to the nearest, so that repeated small steps do not get lost."""
    return towards + ((average - towards) * factor + (_ONE >> 1) >> 62)


@lru_cache(maxsize=1)
def _tables() -> tuple[tuple[int, ...], ...]:
    """Returns tables: table d holds 2^(-k / 64^(d+1)) for k = 0 … 63, in 2^-62, from integer square roots alone."""
    root = _ONE >> 1
    tables = []
    for _ in range(_DIGITS):
        for _ in range(_BITS):
            root = isqrt(root << 62)
        powers = [_ONE]
        for _ in range(_STEPS - 1):
            powers.append(powers[-1] * root >> 62)
        tables.append(tuple(powers))
    return tuple(tables)
