"""So many replicas over domains, as evenly as their room allows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


def spread(room: Counts, wanted: int) -> Counts | None:
    """int64[D]: how many each of D domains takes; None if all of them together do not take `wanted`.

    Water-filling: one that has room left has at most one less than any other. Those left over go to the tightest
    domains, the first of equals.
    """
    if int(room.sum()) < wanted:
        return None
    level = _level(room, wanted)
    numbers = np.minimum(room, level)
    higher = np.flatnonzero(room > level)
    tightest_first = higher[np.argsort(room[higher], kind="stable")]
    numbers[tightest_first[: wanted - int(numbers.sum())]] += 1
    return numbers


def skew(numbers: Counts) -> int:
    """The most that any domain has over any other."""
    return int(numbers.max() - numbers.min()) if len(numbers) else 0


def _level(room: Counts, wanted: int) -> int:
    """The height of the water: the largest n for which min(room, n) adds up to no more than `wanted`."""
    rising = np.sort(room)
    filled = np.concatenate(([0], rising.cumsum()[:-1]))  # what the domains before this one take, all of it
    heights: Counts = (wanted - filled) // np.arange(len(rising), 0, -1)
    above = np.flatnonzero(heights < rising)
    return int(heights[above[0]]) if len(above) else int(rising.max(initial=0))
