"""Selection of nodes for equal replicas, given the number that fits on each: fewest nodes, then tightest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.snapshot import Amounts
from windlass.core.nodes.feasibility import Counts, Eligibility

Rows: TypeAlias = NDArray[np.intp]
NodeCounts: TypeAlias = list[tuple[int, int]]
"""(row, replicas), sorted by row."""
Score: TypeAlias = Callable[[Rows], Counts]
"""Returns a score for each of these rows; the smaller is taken first."""


def select_nodes(
    free: Amounts, able: Eligibility, counts: Counts, wanted: int, score: Score | None = None, first: int = 0
) -> NodeCounts | None:
    """Selects nodes for `wanted` equal replicas, given how many fit on each node. None: too few fit.

    Fewest nodes: those with the largest counts are filled, and the rest goes to the tightest node that takes it. Of
    equals the node with the smallest score, then the one with least left, column by column, then the first row.
    `free` and `counts` are of the rows from `first` on.
    """
    if wanted == 1:
        rows = counts.nonzero()[0]
        return [(first + _tightest(free, able, rows, score, first), 1)] if len(rows) else None
    if int(counts.sum()) < wanted:
        return None
    if int(counts.max()) >= wanted:
        return [(first + _tightest(free, able, np.flatnonzero(counts >= wanted), score, first), wanted)]
    whole, rest = _largest(free, able, counts, wanted, score, first)
    others = counts >= rest
    others[whole] = False
    last = _tightest(free, able, np.flatnonzero(others), score, first)
    taken = zip((first + whole).tolist(), counts[whole].tolist(), strict=True)
    return sorted([*taken, (first + last, rest)])


def _largest(
    free: Amounts, able: Eligibility, counts: Counts, wanted: int, score: Score | None, first: int
) -> tuple[Rows, int]:
    """Returns the rows that are filled, and the number of replicas (at least one) that remain for one more node."""
    falling = np.sort(counts)[::-1]
    least = int(falling[np.searchsorted(falling.cumsum(), wanted)])
    above = np.flatnonzero(counts > least)
    missing = wanted - int(counts[above].sum())
    equals = np.flatnonzero(counts == least)
    taken = (missing - 1) // least
    if 0 < taken < len(equals):
        equals = equals[_by_left_over(free, able, equals, score, first)]
    return np.concatenate((above, equals[:taken])), missing - taken * least


def _tightest(free: Amounts, able: Eligibility, rows: Rows, score: Score | None, first: int) -> int:
    """Returns the row with the smallest score, then with least left after it took its replicas.

    All rows would give the same amounts, so comparing the free amounts before is equivalent.
    """
    if score is not None and len(rows) > 1:
        scores = score(rows + first)
        rows = rows[scores == scores.min()]
    *before, last = able.compared_columns
    for column in before:
        if len(rows) == 1:
            break
        left = free[rows, column]
        rows = rows[left == left[left.argmin()]]
    return int(rows[free[rows, last].argmin()])  # the first of equals


def _by_left_over(free: Amounts, able: Eligibility, rows: Rows, score: Score | None, first: int) -> Rows:
    """Returns the order of rows by score, then by free amounts in the order of the columns; stable, so then by row."""
    keys = [free[rows, column] for column in able.compared_columns]
    if score is not None:
        keys.insert(0, score(rows + first))
    order: Rows = np.lexsort(keys[::-1])
    return order
