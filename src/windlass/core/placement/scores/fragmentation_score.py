"""Scores by the growth of fragmentation, cached per kind of demand and updated only for nodes that have changed."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

import numpy as np

from windlass.core.model.devices import WHOLE
from windlass.core.model.gang import Demand
from windlass.core.model.policy import Policy
from windlass.core.model.resources import CPU, GPU, GPU_MILLI
from windlass.core.model.snapshot import Amounts, NodeTable
from windlass.core.nodes.device_assignment import Choose, tightest_gpu
from windlass.core.nodes.feasibility import Counts, Eligibility
from windlass.core.nodes.node_filters import cache_answer
from windlass.core.placement.node_selection import Rows
from windlass.core.placement.scores.fragmentation import (
    FreeGpus,
    TypicalDemands,
    Weighted,
    fragmentation,
    free_gpus_of,
    join_free_gpus,
    most_popular,
    typical_demands_of,
    without_gpu_part,
    without_whole_gpus,
)
from windlass.core.placement.scores.shadow_prices import worth

_STEPS = 100
_SLOPE = 1000
"""How much F grows, in thousandths of a GPU, is seen through a sigmoid of this width, in so many steps."""
_WIDEST = 16 * WHOLE
"""Where it has long been flat."""
_BY_PRICE = 4
"""How many thousandths of growth one thousandth of lost worth counts for; by experiment (docs/design/scheduler.md)."""
_FINER = 10_000
"""Among nodes of one step best fit decides, a number below this."""
_KEPT = 1_024
"""How many kinds of demand have their scores kept."""


class FragmentationChooser:
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
            kept.score[stale], kept.device[stale] = self._work_out(stale)
            kept.at[stale] = board.clock
        scores: Counts = kept.score[rows]
        return scores

    def on(self, row: int) -> Choose:
        """Which GPU of this node gives a part: where F grows least, then the tightest, then the lowest number.

        Of several replicas the first has it from the scores, the others go to the tightest.
        """
        first = int(self._kept.device[row])

        def choose(left: Sequence[int], asked: int) -> int:
            fresh = left == self._free[row, self._board.columns].tolist()
            return first if fresh and self._kept.at[row] >= self._board.changed[row] else tightest_gpu(left, asked)

        return choose

    def _work_out(self, rows: Rows) -> tuple[Counts, Counts | int]:
        """int64[K]: the score of each node; and, for a part of a GPU, on which of its GPUs."""
        board, able, typical, count = self._board, self._able, self._board.typical, len(rows)
        before = free_gpus_of(board.table, typical, self._free, rows)
        fit = board.fit(before, self._free)
        if not able.milli:
            after = without_whole_gpus(typical, before, able, int(able.each[board.gpu]))
            wasted = fragmentation(typical, join_free_gpus(before, after))
            return _steps(wasted[count:] - wasted[:count]) * _FINER + fit, 0
        # 1. every GPU that has enough
        parts = self._free[rows, board.columns]
        nodes, numbers = (parts >= able.milli).nonzero()
        had = parts[nodes, numbers]
        after = without_gpu_part(typical, before.of(nodes), able, had, able.milli)
        wasted = fragmentation(typical, join_free_gpus(before, after))
        growth = wasted[count:] - wasted[nodes]
        if board.worth is not None:
            growth += _BY_PRICE * (board.worth[had] - board.worth[had - able.milli] - board.worth[able.milli])
        costs = _steps(growth)
        # 2. of each node the one of least cost, then the tightest, then the lowest number; each node has one
        devices = parts.shape[1]
        keys = (costs * (WHOLE + 1) + had) * devices + numbers
        least: Counts = np.minimum.reduceat(keys, nodes.searchsorted(np.arange(count)))
        return least // (devices * (WHOLE + 1)) * _FINER + fit, least % devices


class _Kept:
    """Scores of one kind of demand, by row, and at which tick of the board's clock they were worked out."""

    def __init__(self, nodes: int) -> None:
        self.score = np.zeros(nodes, dtype=np.int64)
        self.device = np.zeros(nodes, dtype=np.int64)
        self.at = np.full(nodes, -1, dtype=np.int64)


class _Board:
    """What scores are made of, kept up to date by looking for rows that differ from the last time."""

    def __init__(self, table: NodeTable, demands: Weighted, *, prices: bool) -> None:
        self.demands = demands
        self.worth = worth(_parts(demands)) if prices else None
        self.table = table
        self.typical: TypicalDemands = typical_demands_of(table, most_popular(demands))
        self.clock = 0
        self.changed = np.zeros(len(table.nodes), dtype=np.int64)
        """int64[N]: the tick at which each row changed."""
        self.gpu = table.column[GPU]
        self.columns = slice(0, 0) if table.devices is None else table.devices.columns
        self._cpu = table.column[CPU]
        self._seen = table.capacity.copy(order="F")
        self._kept: dict[Eligibility, _Kept] = {}
        gpus = free_gpus_of(table, self.typical, table.capacity, np.arange(len(table.nodes))).total
        self._most_gpus = max(int(gpus.max(initial=0)), 1)
        self._most_cpu = max(int(table.capacity[:, self._cpu].max(initial=0)), 1)

    def kept(self, able: Eligibility) -> _Kept:
        """Of one kind of demand."""
        found = self._kept.get(able)
        if found is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            found = self._kept[able] = _Kept(len(self.changed))
        return found

    def look(self, free: Amounts) -> None:
        """Note which rows have changed."""
        rows = (free != self._seen).any(axis=1).nonzero()[0]
        if len(rows):
            self.clock += 1
            self.changed[rows] = self.clock
            self._seen[rows] = free[rows]

    def fit(self, left: FreeGpus, free: Amounts) -> Counts:
        """Best fit: what is left of GPUs and of cpu, each in thousandths of what the largest node has."""
        cpu = np.maximum(free[left.rows, self._cpu], 0)
        fit: Counts = left.total * 1000 // self._most_gpus + cpu * 1000 // self._most_cpu
        return fit


def chooser(
    policy: Policy, table: NodeTable, free: Amounts, demand: Demand, able: Eligibility, *, prices: bool
) -> FragmentationChooser | None:
    """The chooser for this demand; None for whole nodes, for MIG profiles, and without typical demands."""
    if not policy.typical_demands or demand.whole_node:
        return None
    if able.part not in ("", GPU_MILLI):
        return None
    key = ("scoring", policy.scoring)
    board: _Board | None = table.derived.get(key)
    if board is None or board.demands is not policy.typical_demands:
        board = cache_answer(table, key, _Board(table, policy.typical_demands, prices=prices))
    board.look(free)
    return FragmentationChooser(board, free, able)


def _parts(demands: Weighted) -> tuple[tuple[int, int], ...]:
    """(thousandths of a GPU, how often) of the demands for less than a whole one."""
    sizes = ((demand.resources.get(GPU_MILLI, 0), weight) for demand, weight in demands)
    return tuple((size, weight) for size, weight in sizes if 0 < size < WHOLE)


def _curve() -> Counts:
    """The cost of each growth of F from -_WIDEST on, in thousandths of a GPU."""
    better = [int(_STEPS / (1 + exp(growth / _SLOPE))) for growth in range(-_WIDEST, _WIDEST + 1)]
    return _STEPS - np.array(better, dtype=np.int64)


_CURVE = _curve()


def _steps(growth: Counts) -> Counts:
    steps: Counts = _CURVE[np.minimum(np.maximum(growth, -_WIDEST), _WIDEST) + _WIDEST]
    return steps
