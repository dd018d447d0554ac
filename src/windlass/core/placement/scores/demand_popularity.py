"""Popularity of demands, counted as gangs arrive: the typical demands that fragmentation scores assume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace

from windlass.core.model.gang import Demand

_MIN_REPLICAS = 32
"""Number of requested replicas below which no demand counts as typical."""
_MAX_SHAPES = 256
"""Maximum number of shapes, the most popular."""


class DemandPopularity:
    """Number of requests by replica shape.

    `typical` is computed again each time the total number has doubled: it changes ever more rarely, so that results
    derived from it can be cached.
    """

    def __init__(self) -> None:
        self.typical: tuple[tuple[Demand, int], ...] = ()
        """The most popular shapes, with their weights; empty at first."""
        self._times: Counter[Hashable] = Counter()
        self._demands: dict[Hashable, Demand] = {}
        self._due = _MIN_REPLICAS

    def count(self, demands: Sequence[Demand]) -> None:
        """Counts the demands of one gang."""
        for demand in demands:
            one = replace(demand, role="", count=1, min_count=0, max_count=0, avoid=(), faulty=(), topology=None)
            key = (*sorted(one.resources.items()), *sorted(one.node_selector.items()), *_rest(one))
            self._demands.setdefault(key, one)
            self._times[key] += demand.count
        if self._times.total() >= self._due:
            self._due = 2 * self._times.total()
            self.typical = tuple((self._demands[key], times) for key, times in self._times.most_common(_MAX_SHAPES))


def _rest(demand: Demand) -> tuple[Hashable, ...]:
    return demand.tolerations, demand.affinity, demand.gpu_types, demand.whole_node
