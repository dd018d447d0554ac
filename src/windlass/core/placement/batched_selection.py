"""`node_selection.select_nodes` for many ranges of rows at once.

A gang over hundreds of racks would otherwise call it hundreds of times.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.snapshot import Amounts
from windlass.core.nodes.feasibility import Counts, Eligibility
from windlass.core.placement.domain_packing import Parts
from windlass.core.placement.node_selection import NodeCounts, Rows, Score, select_nodes

_MAX_SINGLE_CALLS = 4
"""Maximum number of parts for which single calls are faster."""


def select_nodes_by_part(
    free: Amounts, able: Eligibility, counts: Counts, parts: Parts, score: Score | None = None
) -> NodeCounts:
    """Returns the nodes that `select_nodes` would choose in each part (start, stop, number).

    `number` is the part's number of replicas. Each part has room for them by `counts` (int64[N]).
    """
    starts, stops, numbers = parts.T
    room = np.add.reduceat(np.append(counts, 0), parts[:, :2].ravel())[::2]
    # 1. parts that are filled completely: no choice
    full = room == numbers
    rows = _rows_of(starts[full], stops[full])
    rows = rows[counts[rows] > 0]
    taken = [(rows, counts[rows])]
    # 2. the others
    if np.count_nonzero(~full) > _MAX_SINGLE_CALLS:
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
    """Selects, in each part, the nodes with the largest counts, and for the rest the tightest node that takes it."""
    starts, stops, numbers = parts.T
    rows = _rows_of(starts, stops)
    part = np.repeat(np.arange(len(parts)), stops - starts)[counts[rows] > 0]
    rows = rows[counts[rows] > 0]
    room = counts[rows]
    # 1. nodes that are filled completely, in parts that need several
    whole = np.zeros(len(rows), dtype=np.bool_)
    several = np.maximum.reduceat(room, _firsts(part)) < numbers
    some = np.flatnonzero(several[part])
    if len(some):
        falling = some[np.lexsort((*_keys(free, able, rows[some], score)[::-1], -room[some], part[some]))]
        whole[falling] = _sums_within(part[falling], room[falling]) < numbers[part[falling]]
    # 2. the last node of each part
    rest = numbers - np.bincount(part, room * whole, len(parts)).astype(np.int64)
    left = np.flatnonzero(~whole & (room >= rest[part]))
    last = left[_least(part[left], _keys(free, able, rows[left], score))]
    return [(rows[whole], room[whole]), (rows[last], rest)]


def _keys(free: Amounts, able: Eligibility, rows: Rows, score: Score | None) -> list[Counts]:
    """Returns the sort keys of rows, most significant first; the smaller is taken first."""
    left = [free[rows, column] for column in able.compared_columns]
    return left if score is None else [score(rows), *left]


def _least(part: NDArray[np.intp], keys: list[Counts]) -> NDArray[np.intp]:
    """Returns, for each part (ascending), the position of its smallest row by these keys; of equals the first."""
    found = np.arange(len(part))
    for key in keys:
        firsts = _firsts(part[found])
        if len(firsts) == len(found):
            return found
        least = np.minimum.reduceat(key[found], firsts)
        found = found[key[found] == np.repeat(least, np.diff(firsts, append=len(found)))]
    return found[_firsts(part[found])]


def _firsts(part: NDArray[np.intp]) -> NDArray[np.intp]:
    """Returns the position at which each part (ascending) begins."""
    return np.flatnonzero(np.diff(part, prepend=-1))


def _sums_within(part: NDArray[np.intp], room: Counts) -> Counts:
    """Returns running sums that restart with each part (ascending)."""
    sums = room.cumsum()
    firsts = _firsts(part)
    sums -= np.repeat((sums - room)[firsts], np.diff(firsts, append=len(part)))
    return sums


def _rows_of(starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Rows:
    """Returns all rows of these ranges."""
    lengths = stops - starts
    ahead = lengths.cumsum() - lengths
    rows: Rows = np.arange(int(lengths.sum())) + np.repeat(starts - ahead, lengths)
    return rows
