"""Nodes on which the roles of one gang hold exclusive resources: host ports, and anti-affinity to each other.

An exclusive resource that one gang alone asks for has no column in the node table. Between gangs it is a matter of
masks (`node_filters.losses_by_exclusives`) or, if several gangs ask for it, of a column; within the gang, of this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.gang import Demand
from windlass.core.model.resources import is_exclusive
from windlass.core.nodes.node_filters import Mask


class ExclusiveRows:
    """By exclusive resource: the rows that replicas placed so far hold it on."""

    def __init__(self) -> None:
        self._held: dict[str, Mask] = {}

    def add(self, demand: Demand, rows: NDArray[np.intp] | Sequence[int], nodes: int) -> None:
        """Note that replicas of a demand are on these rows, of so many nodes."""
        for name in exclusive_names((demand,)):
            if name not in self._held:
                self._held[name] = np.zeros(nodes, dtype=np.bool_)
            self._held[name][rows] = True

    def closed_to(self, demand: Demand, closed: Mask | None = None) -> Mask | None:
        """bool[N]: `closed`, and rows on which something exclusive is held that the demand asks for. None: none."""
        if self._held:
            for name in exclusive_names((demand,)):
                if name in self._held:
                    closed = self._held[name] if closed is None else closed | self._held[name]
        return closed


def exclusive_names(demands: Sequence[Demand]) -> Iterator[str]:
    """Exclusive resources that the demands ask for; those of several demands repeatedly."""
    return (name for demand in demands for name, amount in demand.resources.items() if amount and is_exclusive(name))
