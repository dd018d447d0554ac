"""What the rest of a GPU is worth: shadow prices of the parts that are typically asked for.

The fewest GPUs that hold all typical parts are a cutting-stock problem (Gilmore & Gomory, Operations Research 9, 1961,
849-859). The dual of its linear relaxation has a price for each size: how much of a GPU a part really costs, with what
fits beside it. 0.81 of a GPU cost a whole one if too few small parts come to fill the rest; 0.32 cost a third. A rest
is worth the best set of parts that fits into it. Solved by generating patterns, in exact fractions, so that prices are
the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import TypeAlias

import numpy as np

from windlass.core.model.devices import WHOLE
from windlass.core.nodes.feasibility import Counts

Row: TypeAlias = list[Fraction]

_MOST_SIZES = 48
"""The most popular; the work grows with their cube."""
_MOST_STEPS = 2_000
"""Far more than it takes; what has been found by then is a price as well."""


@lru_cache(maxsize=8)
def worth(weights: tuple[tuple[int, int], ...]) -> Counts:
    """int64[1001]: what so many free thousandths of a GPU are worth to (size, weight) parts, in thousandths of a GPU.

    A whole one is worth 1000, as somebody can always use it whole. Read-only.
    """
    popular = sorted(weights, key=lambda pair: (-pair[1], pair[0]))[:_MOST_SIZES]
    sizes = sorted({size for size, _ in popular})
    times = [sum(weight for size, weight in popular if size == each) for each in sizes]
    best, _ = _knapsack(sizes, prices(sizes, times))
    found = np.array([int(value * WHOLE) for value in best], dtype=np.int64)
    found[WHOLE] = WHOLE
    found.flags.writeable = False
    return found


def prices(sizes: Sequence[int], times: Sequence[int]) -> Row:
    """The share of a GPU that a part of each size costs, if so many of each come. Sizes rise, none is above 1000."""
    many = len(sizes)
    # 1. a basis to begin with: every size by itself, as often as it fits
    costs = [1] * many
    inverse = [[Fraction(int(i == j), WHOLE // sizes[i]) for j in range(many)] for i in range(many)]
    used = [Fraction(times[i]) * inverse[i][i] for i in range(many)]
    found: Row = []
    for _ in range(_MOST_STEPS):
        # 2. prices under which each pattern in use is worth what it costs; one that is worth more comes in
        found = [
            sum((row[j] for row, cost in zip(inverse, costs, strict=True) if cost), Fraction()) for j in range(many)
        ]
        below = next((j for j in range(many) if found[j] < 0), None)
        if below is not None:
            pattern = [-(j == below) for j in range(many)]  # it costs nothing to hold one more than is asked for
        else:
            best, pattern = _knapsack(sizes, found)
            if best[WHOLE] <= 1:
                break
        # 3. it replaces the one that runs out first
        change = [sum((row[j] * pattern[j] for j in range(many) if pattern[j]), Fraction()) for row in inverse]
        leaving = min((used[i] / change[i], i) for i in range(many) if change[i] > 0)[1]
        costs[leaving] = int(below is None)
        _pivot(inverse, used, change, leaving)
    return [max(price, Fraction()) for price in found]


def _pivot(inverse: list[Row], used: Row, change: Row, leaving: int) -> None:
    """The basis with another pattern at the place of the leaving one."""
    inverse[leaving] = [value / change[leaving] for value in inverse[leaving]]
    used[leaving] /= change[leaving]
    for i, row in enumerate(inverse):
        if i != leaving and change[i]:
            inverse[i] = [mine - change[i] * theirs for mine, theirs in zip(row, inverse[leaving], strict=True)]
            used[i] -= change[i] * used[leaving]


def _knapsack(sizes: Sequence[int], each: Sequence[Fraction]) -> tuple[Row, list[int]]:
    """The best worth that fits into 0, 1, … 1000 thousandths, and how many of each size make that of 1000."""
    unit = lcm(*(price.denominator for price in each))
    items = [(number, size, int(price * unit)) for number, (size, price) in enumerate(zip(sizes, each, strict=True))]
    best, last = [0] * (WHOLE + 1), [-1] * (WHOLE + 1)
    for room in range(1, WHOLE + 1):
        best[room] = best[room - 1]
        for number, size, price in items:
            if size <= room and best[room - size] + price > best[room]:
                best[room], last[room] = best[room - size] + price, number
    pattern, room = [0] * len(sizes), WHOLE
    while room > 0:
        if last[room] < 0:
            room -= 1
        else:
            pattern[last[room]] += 1
            room -= sizes[last[room]]
    return [Fraction(value, unit) for value in best], pattern
