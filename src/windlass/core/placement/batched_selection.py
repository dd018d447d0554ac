"""`seating.seat` for many parts of the rows at once: a gang over hundreds of racks would ask it hundreds of times."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.snapshot import Amounts
from windlass.core.nodes.feasibility import Counts, Eligibility
from windlass.core.placement.domain_packing import Parts
from windlass.core.placement.node_selection import NodeCounts, Rows, Score, select_nodes

_FEW = 4
"""Parts that are quicker seated one by one."""


def select_nodes_by_part(
    free: Amounts, able: Eligibility, counts: Counts, parts: Parts, score: Score | None = None
) -> NodeCounts:
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
            inside = select_nodes(free[start:stop], able, counts[start:stop], number, score, start)
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
    room = counts[rows]
    # 1. nodes that are used up, in parts that need several
    whole = np.zeros(len(rows), dtype=np.bool_)
    several = np.maximum.reduceat(room, _firsts(part)) < numbers
    some = np.flatnonzero(several[part])
    if len(some):
        falling = some[np.lexsort((*_keys(free, able, rows[some], score)[::-1], -room[some], part[some]))]
        whole[falling] = _sums_within(part[falling], room[falling]) < numbers[part[falling]]
    # 2. the last node of each
    rest = numbers - np.bincount(part, room * whole, len(parts)).astype(np.int64)
    left = np.flatnonzero(~whole & (room >= rest[part]))
    last = left[_least(part[left], _keys(free, able, rows[left], score))]
    return [(rows[whole], room[whole]), (rows[last], rest)]


def _keys(free: Amounts, able: Eligibility, rows: Rows, score: Score | None) -> list[Counts]:
    """What tells equal rows apart; the lesser is taken first."""
    left = [free[rows, column] for column in able.ranked]
    return left if score is None else [score(rows), *left]


def _least(part: NDArray[np.intp], keys: list[Counts]) -> NDArray[np.intp]:
    """Of each part (rising) the position of the least by these keys, and then the first."""
    found = np.arange(len(part))
    for key in keys:
        firsts = _firsts(part[found])
        if len(firsts) == len(found):
            return found
        least = np.minimum.reduceat(key[found], firsts)
        found = found[key[found] == np.repeat(least, np.diff(firsts, append=len(found)))]
    return found[_firsts(part[found])]


def _firsts(part: NDArray[np.intp]) -> NDArray[np.intp]:
    """Where each part (rising) begins."""
    return np.flatnonzero(np.diff(part, prepend=-1))


def _sums_within(part: NDArray[np.intp], room: Counts) -> Counts:
    """Running sums that begin anew with each part (rising)."""
    sums = room.cumsum()
    firsts = _firsts(part)
    sums -= np.repeat((sums - room)[firsts], np.diff(firsts, append=len(part)))
    return sums


def _rows_of(starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Rows:
    """All rows of these ranges."""
    lengths = stops - starts
    ahead = lengths.cumsum() - lengths
    rows: Rows = np.arange(int(lengths.sum())) + np.repeat(starts - ahead, lengths)
    return rows
