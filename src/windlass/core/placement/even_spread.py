"""Even spread of replicas over domains, as far as their room allows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


def spread(room: Counts, wanted: int) -> Counts | None:
    """Returns int64[D]: number of replicas for each of D domains; None if together they do not take `wanted`.

    Water-filling: a domain with room left has at most one replica less than any other. The last replicas go to the
    domains with the least room, of equals the first.
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
    """Returns the largest difference between two domains."""
    return int(numbers.max() - numbers.min()) if len(numbers) else 0


def _level(room: Counts, wanted: int) -> int:
    """Returns the level of the water-filling: the largest n for which the sum of min(room, n) is at most `wanted`."""
    rising = np.sort(room)
    filled = np.concatenate(([0], rising.cumsum()[:-1]))  # total room of the domains before this one
    heights: Counts = (wanted - filled) // np.arange(len(rising), 0, -1)
    above = np.flatnonzero(heights < rising)
    return int(heights[above[0]]) if len(above) else int(rising.max(initial=0))
