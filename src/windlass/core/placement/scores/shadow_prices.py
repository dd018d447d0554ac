"""Worth of the free part of a GPU: shadow prices of the typically requested parts.

The fewest GPUs that hold all typical parts are a cutting-stock problem (Gilmore & Gomory, Operations Research 9, 1961,
849-859). The dual of its linear relaxation has a price for each size: the share of a GPU that a part really costs,
given the parts that fit beside it. 0.81 of a GPU cost a whole one if too few small parts arrive to fill the remainder;
0.32 cost a third. A remainder is worth the best set of parts that fits into it. Solved by column generation, in exact
fractions, so that prices are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import TypeAlias

import numpy as np

from windlass.core.model.resources import WHOLE
from windlass.core.nodes.feasibility import Counts

Row: TypeAlias = list[Fraction]

_MAX_SIZES = 48
"""Maximum number of sizes, the most popular; the time grows with their cube."""
_MAX_STEPS = 2_000
"""Far more than needed; the intermediate result after this number is usable as prices, too."""


@lru_cache(maxsize=8)
def worth_of_free_part(weights: tuple[tuple[int, int], ...]) -> Counts:
    """Returns int64[1001]: the worth of free thousandths of a GPU to (size, weight) parts, in thousandths of a GPU.

    A whole GPU is worth 1000, because it can always be used whole. Read-only.
    """
    popular = sorted(weights, key=lambda pair: (-pair[1], pair[0]))[:_MAX_SIZES]
    sizes = sorted({size for size, _ in popular})
    times = [sum(weight for size, weight in popular if size == each) for each in sizes]
    best, _ = _knapsack(sizes, shadow_prices_of(sizes, times))
    found = np.array([int(value * WHOLE) for value in best], dtype=np.int64)
    found[WHOLE] = WHOLE
    found.flags.writeable = False
    return found


def shadow_prices_of(sizes: Sequence[int], times: Sequence[int]) -> Row:
    """Returns the share of a GPU that a part of each size costs at these frequencies. Sizes ascend, at most 1000."""
    count = len(sizes)
    # 1. initial basis: every size by itself, as often as it fits
    costs = [1] * count
    inverse = [[Fraction(int(i == j), WHOLE // sizes[i]) for j in range(count)] for i in range(count)]
    used = [Fraction(times[i]) * inverse[i][i] for i in range(count)]
    found: Row = []
    for _ in range(_MAX_STEPS):
        # 2. prices at which each pattern in use is worth its cost; a pattern that is worth more enters
        found = [
            sum((row[j] for row, cost in zip(inverse, costs, strict=True) if cost), Fraction()) for j in range(count)
        ]
        below = next((j for j in range(count) if found[j] < 0), None)
        if below is not None:
            pattern = [-(j == below) for j in range(count)]  # holding one more than requested costs nothing
        else:
            best, pattern = _knapsack(sizes, found)
            if best[WHOLE] <= 1:
                break
        # 3. it replaces the pattern that is exhausted first
        change = [sum((row[j] * pattern[j] for j in range(count) if pattern[j]), Fraction()) for row in inverse]
        leaving = min((used[i] / change[i], i) for i in range(count) if change[i] > 0)[1]
        costs[leaving] = int(below is None)
        _pivot(inverse, used, change, leaving)
    return [max(price, Fraction()) for price in found]


def _pivot(inverse: list[Row], used: Row, change: Row, leaving: int) -> None:
    """Replaces the leaving pattern of the basis."""
    inverse[leaving] = [value / change[leaving] for value in inverse[leaving]]
    used[leaving] /= change[leaving]
    for i, row in enumerate(inverse):
        if i != leaving and change[i]:
            inverse[i] = [own - change[i] * pivot for own, pivot in zip(row, inverse[leaving], strict=True)]
            used[i] -= change[i] * used[leaving]


def _knapsack(sizes: Sequence[int], each: Sequence[Fraction]) -> tuple[Row, list[int]]:
    """Returns the best worth that fits into 0, 1, … 1000 thousandths, and the number of each size for 1000."""
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
