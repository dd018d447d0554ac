"""Nodes on which the roles of one gang hold exclusive resources: host ports, and anti-affinity to each other.

An exclusive resource that only one gang requests has no column in the node table. Conflicts with foreign pods are
masks (`node_filters.losses_by_exclusives`); conflicts between several gangs are a column; conflicts within a gang are
tracked here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.gang import Demand
from windlass.core.model.resources import is_exclusive
from windlass.core.nodes.node_filters import Mask


class ExclusiveRows:
    """By exclusive resource: the rows on which replicas placed so far hold it."""

    def __init__(self) -> None:
        self._held: dict[str, Mask] = {}

    def add(self, demand: Demand, rows: NDArray[np.intp] | Sequence[int], nodes: int) -> None:
        """Records that replicas of a demand are on these rows; `nodes` is the number of rows of the table."""
        for name in exclusive_names((demand,)):
            if name not in self._held:
                self._held[name] = np.zeros(nodes, dtype=np.bool_)
            self._held[name][rows] = True

    def closed_to(self, demand: Demand, closed: Mask | None = None) -> Mask | None:
        """Returns bool[N]: `closed`, and rows where an exclusive resource of the demand is held. None: no row."""
        if self._held:
            for name in exclusive_names((demand,)):
                if name in self._held:
                    closed = self._held[name] if closed is None else closed | self._held[name]
        return closed


def exclusive_names(demands: Sequence[Demand]) -> Iterator[str]:
    """Yields the exclusive resources that the demands request; those of several demands repeatedly."""
    return (name for demand in demands for name, amount in demand.resources.items() if amount and is_exclusive(name))
