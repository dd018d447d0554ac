"""What a queue has held of late: an average in which the past counts half after each half-life.

Integers throughout, so that every machine reckons the same. The average moves towards what is held:
`average · 2^(-t/half-life) + held · (1 - 2^(-t/half-life))`; held for ever, it is what is held.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import isqrt

from windlass.core.model.snapshot import PastUsage

SCALE = 1 << 40
"""`PastUse.amounts` count 2^-40 of a resource's unit: 1 ms of one GPU shows in a half-life of years."""

_ONE = 1 << 62
_BITS = 6
_STEPS = 1 << _BITS
_DIGITS = 4
"""Time is cut into half-lives, 64ths, 64ths of those and so on, four times: 2^-24 of a half-life (36 ms of a week)."""


def advance_usage(past: PastUsage | None, held: Mapping[str, int], half_life: int, now: int) -> PastUsage:
    """The past use at `now`, if `held` has been held since `past.at`. Times in ms; None: there is no past.

    In two steps or in one comes to the same, but for a rounding of 2^-24. A clock that goes back changes nothing.
    """
    if past is None:
        return PastUsage(now, {})
    if now <= past.at:
        return past
    factor = decay(now - past.at, half_life)
    names = past.amounts.keys() | held.keys()
    after = {name: _moved(past.amounts.get(name, 0), held.get(name, 0) * SCALE, factor) for name in sorted(names)}
    return PastUsage(now, {name: amount for name, amount in after.items() if amount})


def average(past: PastUsage) -> dict[str, int]:
    """In the resources' own units, rounded."""
    return {name: (amount + SCALE // 2) // SCALE for name, amount in past.amounts.items()}


@lru_cache(maxsize=256)
def decay(time: int, half_life: int) -> int:
    """2^(-time/half_life), in 2^-62. Between two entries of the last table it is a straight line."""
    whole, rest = divmod(time, half_life)
    if whole >= 62:
        return 0
    factor = _ONE >> whole
    for table in _tables():
        digit, rest = divmod(rest * _STEPS, half_life)
        factor = factor * table[digit] >> 62
    step = _ONE - _tables()[-1][1]
    return factor - (factor * (step * rest // half_life) >> 62)


def _moved(average: int, towards: int, factor: int) -> int:
    """Rounded to the nearest, so that no small step is lost for good."""
    return towards + ((average - towards) * factor + (_ONE >> 1) >> 62)


@lru_cache(maxsize=1)
def _tables() -> tuple[tuple[int, ...], ...]:
    """Table d holds 2^(-k / 64^(d+1)) for k = 0 … 63, in 2^-62, from square roots of integers alone."""
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
