"""What is mostly asked for, counted as gangs come in: what scores that look ahead judge nodes by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace

from windlass.core.model.gang import Demand

_FIRST = 32
"""Before so many replicas have been asked for nobody can say what is typical."""
_MOST = 256
"""Shapes, the most popular."""


class DemandPopularity:
    """How often each shape of replica has been asked for.

    `typical` is made anew each time as much again has been asked for: it changes ever more rarely, so that what was
    worked out from it lasts.
    """

    def __init__(self) -> None:
        self.typical: tuple[tuple[Demand, int], ...] = ()
        """The most popular shapes, with their weights; empty at first."""
        self._times: Counter[Hashable] = Counter()
        self._demands: dict[Hashable, Demand] = {}
        self._due = _FIRST

    def count(self, demands: Sequence[Demand]) -> None:
        """A gang has asked for these."""
        for demand in demands:
            one = replace(demand, role="", count=1, least=0, most=0, avoid=(), topology=None)
            key = (*sorted(one.resources.items()), *sorted(one.node_selector.items()), *_rest(one))
            self._demands.setdefault(key, one)
            self._times[key] += demand.count
        if self._times.total() >= self._due:
            self._due = 2 * self._times.total()
            self.typical = tuple((self._demands[key], times) for key, times in self._times.most_common(_MOST))


def _rest(demand: Demand) -> tuple[Hashable, ...]:
    return demand.tolerations, demand.affinity, demand.gpu_types, demand.whole_node
