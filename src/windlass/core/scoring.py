"""How a node is chosen among those that do: a table of small named scores, kept up change by change.

A score is an integer per node, the smaller the better; among equals the tightest node goes first (`core.seating`).
Scores are kept per kind of demand, and only those of nodes that have changed since are worked out anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp
from types import MappingProxyType

import numpy as np

from windlass.core.devices import WHOLE
from windlass.core.feasibility import Counts, Eligibility, remember
from windlass.core.fragmentation import (
    Left,
    Typical,
    Weighted,
    fragmentation,
    left_on,
    typical_of,
    with_part,
    with_whole,
)
from windlass.core.gang import Demand
from windlass.core.handout import Choose, part_of
from windlass.core.policy import Policy
from windlass.core.resources import CPU, GPU, GPU_MILLI
from windlass.core.seating import Rows
from windlass.core.snapshot import Amounts, NodeTable

_STEPS = 100
_SLOPE = 1000
"""How much F grows, in thousandths of a GPU, is seen through a sigmoid of this width, in so many steps."""
_WIDEST = 16 * WHOLE
"""Where it has long been flat."""
_FINER = 10_000
"""Among nodes of one step best fit decides, a number below this."""
_KEPT = 1_024
"""How many kinds of demand have their scores kept."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """`gradient`: by the growth of fragmentation; else the tightest node goes first."""

    about: str
    gradient: bool = False


SCORINGS: Mapping[str, Scoring] = MappingProxyType(
    {
        "tightest": Scoring("the node that is left with least, resource by resource, devices first"),
        "fgd": Scoring("where fragmentation over the typical demands grows least, then best fit", gradient=True),
    }
)


class Chooser:
    """For one kind of demand and one state of the nodes: which of them, and which of their GPUs."""

    def __init__(self, board: _Board, free: Amounts, able: Eligibility) -> None:
        self._board = board
        self._free = free
        self._able = able
        self._kept = board.kept(able)

    def score(self, rows: Rows) -> Counts:
        """int64[K]: the smaller goes first."""
        kept, board = self._kept, self._board
        stale = rows[board.changed[rows] > kept.at[rows]]
        if len(stale):
            kept.cost[stale] = self._costs(stale)
            kept.at[stale] = board.clock
        scores: Counts = kept.cost[rows] * _FINER + board.fit[rows]
        return scores

    def on(self, row: int) -> Choose:
        """Which GPU of this node gives a part: where F grows least, then the tightest, then the lowest number."""

        def choose(left: Sequence[int], asked: int) -> int:
            parts = np.array([left], dtype=np.int64)
            keys = self._by_device(np.array([row], dtype=np.intp), parts, asked)[1]
            return int(keys.min() % len(left))

        return choose

    def _costs(self, rows: Rows) -> Counts:
        board, able = self._board, self._able
        if able.milli:
            parts = self._free[rows, board.columns]
            firsts, keys = self._by_device(rows, parts, able.milli)
            least: Counts = np.minimum.reduceat(keys, firsts)
            costs: Counts = least // (parts.shape[1] * (WHOLE + 1))
            return costs
        before = board.left.of(rows)
        after = with_whole(board.typical, before, able, int(able.each[board.gpu]))
        return _steps(fragmentation(board.typical, after) - board.before[rows])

    def _by_device(self, rows: Rows, parts: Counts, asked: int) -> tuple[Counts, Counts]:
        """For each GPU (int64[K, D] `parts` left) that has enough: its cost, what is left, its number, as one integer.

        And where each row's begin. Each row has one.
        """
        board, (nodes, numbers) = self._board, np.nonzero(parts >= asked)
        had = parts[nodes, numbers]
        before = board.left.of(rows[nodes])
        after = with_part(board.typical, before, self._able, had, asked)
        growth = fragmentation(board.typical, after) - board.before[rows[nodes]]
        firsts = np.flatnonzero(np.diff(nodes, prepend=-1))
        return firsts, (_steps(growth) * (WHOLE + 1) + had) * parts.shape[1] + numbers


class _Kept:
    """Costs of one kind of demand, by row, and at which tick of the board's clock they were worked out."""

    def __init__(self, nodes: int) -> None:
        self.cost = np.zeros(nodes, dtype=np.int64)
        self.at = np.full(nodes, -1, dtype=np.int64)


class _Board:
    """What scores are made of, by row, kept up to date by looking for rows that differ from the last time."""

    def __init__(self, table: NodeTable, demands: Weighted) -> None:
        self.demands = demands
        self.typical: Typical = typical_of(table, demands)
        self.clock = 0
        self.changed = np.zeros(len(table.nodes), dtype=np.int64)
        self.gpu = table.column[GPU]
        self.columns = slice(0, 0) if table.devices is None else table.devices.columns
        self.left: Left = left_on(table, self.typical, table.capacity, np.arange(len(table.nodes)))
        self.before = fragmentation(self.typical, self.left)
        self._table = table
        self._seen = table.capacity.copy(order="F")
        self._largest = [max(int(each.max(initial=0)), 1) for each in self._balance(self.left, table.capacity)]
        self.fit = self._fit(self.left, table.capacity)
        self._kept: dict[Eligibility, _Kept] = {}

    def kept(self, able: Eligibility) -> _Kept:
        """Of one kind of demand."""
        found = self._kept.get(able)
        if found is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            found = self._kept[able] = _Kept(len(self.changed))
        return found

    def look(self, free: Amounts) -> None:
        """Work out anew what has changed."""
        rows = np.flatnonzero((free != self._seen).any(axis=1))
        if not len(rows):
            return
        self.clock += 1
        self.changed[rows] = self.clock
        self._seen[rows] = free[rows]
        now = left_on(self._table, self.typical, free, rows)
        for mine, there in zip((*self.left.plain,), now.plain, strict=True):
            mine[rows] = there
        self.left.fit[rows], self.left.short[rows], self.left.total[rows] = now.fit, now.short, now.total
        self.before[rows] = fragmentation(self.typical, now)
        self.fit[rows] = self._fit(now, free[rows])

    def _balance(self, left: Left, free: Amounts) -> tuple[Counts, Counts]:
        return left.total, free[:, self._table.column[CPU]]

    def _fit(self, left: Left, free: Amounts) -> Counts:
        """Best fit: what is left of GPUs and of cpu, each in thousandths of what the largest node has."""
        shares = [
            np.clip(each * 1000 // largest, 0, 1000)
            for each, largest in zip(self._balance(left, free), self._largest, strict=True)
        ]
        return shares[0] + shares[1]


def chooser(policy: Policy, table: NodeTable, free: Amounts, demand: Demand, able: Eligibility) -> Chooser | None:
    """How the policy chooses for this demand; None: the tightest.

    A score by typical demands says nothing of whole nodes and of MIG profiles, or where nobody says what is typical.
    """
    scoring = SCORINGS[policy.scoring]
    if not scoring.gradient or not policy.typical or demand.whole_node:
        return None
    if part_of(demand.resources) not in ("", GPU_MILLI):
        return None
    key = ("scoring", policy.scoring)
    board: _Board | None = table.derived.get(key)
    if board is None or board.demands is not policy.typical:
        board = remember(table, key, _Board(table, policy.typical))
    board.look(free)
    return Chooser(board, free, able)


def _curve() -> Counts:
    """The cost of each growth of F from -_WIDEST on, in thousandths of a GPU."""
    better = [int(_STEPS / (1 + exp(growth / _SLOPE))) for growth in range(-_WIDEST, _WIDEST + 1)]
    return _STEPS - np.array(better, dtype=np.int64)


_CURVE = _curve()


def _steps(growth: Counts) -> Counts:
    steps: Counts = _CURVE[np.clip(growth, -_WIDEST, _WIDEST) + _WIDEST]
    return steps
