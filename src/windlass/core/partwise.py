"""`seating.seat` for many parts of the rows at once: a gang over hundreds of racks would ask it hundreds of times."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from windlass.core.feasibility import Counts, Eligibility
from windlass.core.packing import Parts
from windlass.core.seating import Rows, Score, Seats, seat
from windlass.core.snapshot import Amounts

_FEW = 4
"""Parts that are quicker seated one by one."""


def seat_each(free: Amounts, able: Eligibility, counts: Counts, parts: Parts, score: Score | None = None) -> Seats:
    """In each part (start, stop, number) as many replicas as it says, on the nodes that `seat` would choose.

    Each part has room for them by `counts` (int64[N]).
    """
    starts, stops, numbers = parts.T
    room = np.add.reduceat(np.append(counts, 0), parts[:, :2].ravel())[::2]
    # 1. parts that are used up: nothing to choose
    full = room == numbers
    rows = _rows_of(starts[full], stops[full])
    rows = rows[counts[rows] > 0]
    taken = [(rows, counts[rows])]
    # 2. the others
    if np.count_nonzero(~full) > _FEW:
        taken += _choose(free, able, counts, parts[~full], score)
    else:
        for start, stop, number in parts[~full].tolist():
            inside = seat(free[start:stop], able, counts[start:stop], number, score, start)
            taken += [(np.array([row]), np.array([replicas])) for row, replicas in inside or ()]
    rows, replicas = (np.concatenate(each) for each in zip(*taken, strict=True))
    by_row = np.argsort(rows)
    return list(zip(rows[by_row].tolist(), replicas[by_row].tolist(), strict=True))


def _choose(
    free: Amounts, able: Eligibility, counts: Counts, parts: Parts, score: Score | None
) -> list[tuple[Rows, Counts]]:
    """Of each part the largest counts whole, and what remains on the tightest node that takes it."""
    starts, stops, numbers = parts.T
    rows = _rows_of(starts, stops)
    part = np.repeat(np.arange(len(parts)), stops - starts)[counts[rows] > 0]
    rows = rows[counts[rows] > 0]
    keys = [free[rows, column] for column in range(able.ranked)]
    if score is not None:
        keys.insert(0, score(rows))
    order = np.lexsort((*keys[::-1], -counts[rows], part))
    rows, part, keys = rows[order], part[order], [key[order] for key in keys]
    room = counts[rows]
    first = np.searchsorted(part, np.arange(len(parts)))
    so_far = room.cumsum()
    so_far -= (so_far - room)[first][part]
    whole = so_far < numbers[part]
    rest = numbers - np.bincount(part, room * whole, len(parts)).astype(np.int64)
    left = np.flatnonzero(~whole & (room >= rest[part]))
    last = rows[left[_least(part[left], [key[left] for key in keys], rows[left])]]
    return [(rows[whole], room[whole]), (last, rest)]


def _rows_of(starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Rows:
    """All rows of these ranges."""
    lengths = stops - starts
    ahead = lengths.cumsum() - lengths
    rows: Rows = np.arange(int(lengths.sum())) + np.repeat(starts - ahead, lengths)
    return rows


def _least(part: NDArray[np.intp], keys: list[Counts], rows: Rows) -> NDArray[np.intp]:
    """Of each part (rising) the position of the least by these keys, and then by row."""
    found = np.arange(len(part))
    for key in (*keys, rows):
        ends = np.flatnonzero(np.diff(part[found], prepend=-1))
        if len(ends) == len(found):
            break
        least = np.minimum.reduceat(key[found], ends)
        found = found[key[found] == np.repeat(least, np.diff(ends, append=len(found)))]
    return found
