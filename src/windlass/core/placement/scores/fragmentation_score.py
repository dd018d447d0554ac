"""Scores by the growth of fragmentation, cached per kind of demand and updated only for nodes that have changed."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

import numpy as np

from windlass.core.model.gang import Demand
from windlass.core.model.policy import Policy
from windlass.core.model.resources import CPU, GPU, GPU_MILLI, WHOLE
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
from windlass.core.placement.scores.shadow_prices import worth_of_free_part

_STEPS = 100
_WIDTH = 1000
"""The growth of F, in thousandths of a GPU, goes through a sigmoid of this width, in `_STEPS` steps."""
_MAX_GROWTH = 16 * WHOLE
"""Beyond this growth the sigmoid is flat."""
_PRICE_WEIGHT = 4
"""Weight of a lost worth of one thousandth, in thousandths of growth; by experiment (docs/design/scheduler.md)."""
_FIT_RANGE = 10_000
"""Range of the best-fit score, which decides among nodes of equal steps."""
_MAX_CACHED = 1_024
"""Maximum number of kinds of demand whose scores are cached."""


class FragmentationChooser:
    """Chooses nodes, and GPUs of a node, for one kind of demand and one state of the nodes."""

    def __init__(self, cache: _ScoreCache, free: Amounts, able: Eligibility) -> None:
        self._cache = cache
        self._free = free
        self._able = able
        self._cached = cache.cached(able)

    def score(self, rows: Rows) -> Counts:
        """Returns int64[K]: scores; the smaller goes first."""
        cached, cache = self._cached, self._cache
        stale = rows[cache.changed[rows] > cached.at[rows]]
        if len(stale):
            cached.score[stale], cached.device[stale] = self._compute(stale)
            cached.at[stale] = cache.clock
        scores: Counts = cached.score[rows]
        return scores

    def on(self, row: int) -> Choose:
        """Returns the choice of the GPU that gives a part: least growth of F, then tightest, then lowest number.

        For the first of several replicas it follows from the scores; the others go to the tightest GPU.
        """
        first = int(self._cached.device[row])

        def choose(left: Sequence[int], asked: int) -> int:
            fresh = left == self._free[row, self._cache.columns].tolist()
            return first if fresh and self._cached.at[row] >= self._cache.changed[row] else tightest_gpu(left, asked)

        return choose

    def _compute(self, rows: Rows) -> tuple[Counts, Counts | int]:
        """Returns int64[K]: the score of each node; and, for a part of a GPU, the number of its best GPU."""
        cache, able, typical, count = self._cache, self._able, self._cache.typical, len(rows)
        before = free_gpus_of(cache.table, typical, self._free, rows)
        fit = cache.fit(before, self._free)
        if not able.gpu_milli:
            after = without_whole_gpus(typical, before, able, int(able.request_by_column[cache.gpu]))
            wasted = fragmentation(typical, join_free_gpus(before, after))
            return _steps(wasted[count:] - wasted[:count]) * _FIT_RANGE + fit, 0
        # 1. every GPU that has enough
        parts = self._free[rows, cache.columns]
        nodes, numbers = (parts >= able.gpu_milli).nonzero()
        had = parts[nodes, numbers]
        after = without_gpu_part(typical, before.of(nodes), able, had, able.gpu_milli)
        wasted = fragmentation(typical, join_free_gpus(before, after))
        growth = wasted[count:] - wasted[nodes]
        if cache.worth is not None:
            growth += _PRICE_WEIGHT * (
                cache.worth[had] - cache.worth[had - able.gpu_milli] - cache.worth[able.gpu_milli]
            )
        costs = _steps(growth)
        # 2. on each node the GPU of least cost, then the tightest, then the lowest number; each node has one
        devices = parts.shape[1]
        keys = (costs * (WHOLE + 1) + had) * devices + numbers
        least: Counts = np.minimum.reduceat(keys, nodes.searchsorted(np.arange(count)))
        return least // (devices * (WHOLE + 1)) * _FIT_RANGE + fit, least % devices


class _CachedScores:
    """Scores of one kind of demand, by row, and the tick of the cache's clock at which each was computed."""

    def __init__(self, nodes: int) -> None:
        self.score = np.zeros(nodes, dtype=np.int64)
        self.device = np.zeros(nodes, dtype=np.int64)
        self.at = np.full(nodes, -1, dtype=np.int64)


class _ScoreCache:
    """Cache of scores for one table and set of typical demands; it detects rows that differ from the last call."""

    def __init__(self, table: NodeTable, demands: Weighted, *, prices: bool) -> None:
        self.demands = demands
        self.worth = worth_of_free_part(_parts(demands)) if prices else None
        self.table = table
        self.typical: TypicalDemands = typical_demands_of(table, most_popular(demands))
        self.clock = 0
        self.changed = np.zeros(len(table.nodes), dtype=np.int64)
        """int64[N]: the tick at which each row changed."""
        self.gpu = table.column[GPU]
        self.columns = slice(0, 0) if table.devices is None else table.devices.columns
        self._cpu = table.column[CPU]
        self._seen = table.capacity.copy(order="F")
        self._cached: dict[Eligibility, _CachedScores] = {}
        gpus = free_gpus_of(table, self.typical, table.capacity, np.arange(len(table.nodes))).total
        self._most_gpus = max(int(gpus.max(initial=0)), 1)
        self._most_cpu = max(int(table.capacity[:, self._cpu].max(initial=0)), 1)

    def cached(self, able: Eligibility) -> _CachedScores:
        """Returns the cached scores of one kind of demand."""
        found = self._cached.get(able)
        if found is None:
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            found = self._cached[able] = _CachedScores(len(self.changed))
        return found

    def update(self, free: Amounts) -> None:
        """Records which rows have changed."""
        rows = (free != self._seen).any(axis=1).nonzero()[0]
        if len(rows):
            self.clock += 1
            self.changed[rows] = self.clock
            self._seen[rows] = free[rows]

    def fit(self, left: FreeGpus, free: Amounts) -> Counts:
        """Returns the best-fit score: GPUs and cpu left, each in thousandths of the largest node's."""
        cpu = np.maximum(free[left.rows, self._cpu], 0)
        fit: Counts = left.total * 1000 // self._most_gpus + cpu * 1000 // self._most_cpu
        return fit


def chooser(
    policy: Policy, table: NodeTable, free: Amounts, demand: Demand, able: Eligibility, *, prices: bool
) -> FragmentationChooser | None:
    """Returns the chooser for this demand; None for whole nodes, for MIG profiles, and without typical demands."""
    if not policy.typical_demands or demand.whole_node:
        return None
    if able.gpu_part not in ("", GPU_MILLI):
        return None
    key = ("scoring", policy.scoring)
    cache: _ScoreCache | None = table.derived.get(key)
    if cache is None or cache.demands is not policy.typical_demands:
        cache = cache_answer(table, key, _ScoreCache(table, policy.typical_demands, prices=prices))
    cache.update(free)
    return FragmentationChooser(cache, free, able)


def _parts(demands: Weighted) -> tuple[tuple[int, int], ...]:
    """Returns (thousandths of a GPU, number of requests) of the demands for less than a whole one."""
    sizes = ((demand.resources.get(GPU_MILLI, 0), weight) for demand, weight in demands)
    return tuple((size, weight) for size, weight in sizes if 0 < size < WHOLE)


def _curve() -> Counts:
    """Returns the cost of each growth of F from -_MAX_GROWTH on, in thousandths of a GPU."""
    better = [int(_STEPS / (1 + exp(growth / _WIDTH))) for growth in range(-_MAX_GROWTH, _MAX_GROWTH + 1)]
    return _STEPS - np.array(better, dtype=np.int64)


_CURVE = _curve()


def _steps(growth: Counts) -> Counts:
    steps: Counts = _CURVE[np.minimum(np.maximum(growth, -_MAX_GROWTH), _MAX_GROWTH) + _MAX_GROWTH]
    return steps
