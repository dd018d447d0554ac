"""Free capacity of the nodes that pass the filters, summed up once for all gangs with the same filters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.snapshot import Amounts
from windlass.core.nodes.feasibility import Counts, Eligibility, FilterResult, room_by_resource
from windlass.core.nodes.node_filters import Mask


@dataclass(frozen=True, slots=True, eq=False)
class FreeCapacity:
    """Free capacity of eligible nodes, grouped into M kinds with equal free amounts; R resources."""

    columns: tuple[Amounts, ...]
    """By resource, int64[M]; not negative."""
    nodes_per_kind: Counts
    """int64[M]: number of nodes of each kind."""
    kind_of: NDArray[np.intp]
    """int[E]: kind of each of the E eligible nodes."""
    rows: Mask
    """bool[N]: the eligible nodes."""
    total: tuple[int, ...]
    most: tuple[int, ...]
    """Largest amount on one node."""
    nodes: tuple[int, ...]
    """Number of nodes with any of it."""

    def rooms(self, able: Eligibility, most: int) -> Amounts:
        """Returns int64[K, M]: replicas that fit on a node by each of the K requested resources alone, at most `most`.

        A request for nothing has one row.
        """
        if able.devices is not None or able.capacity is not None or not able.request:
            return np.array(room_by_resource(able, np.column_stack(self.columns), most, self.rows))
        most = min(most, able.per_node)
        found = np.empty((len(able.request), len(self.nodes_per_kind)), dtype=np.int64)
        for place, (column, amount) in enumerate(able.request):
            np.floor_divide(self.columns[column], amount, out=found[place])
        return np.minimum(found, most, out=found)

    def count(self, room: Counts) -> int:
        """Returns the sum over all nodes of an amount per kind (int64[M])."""
        return int(room @ self.nodes_per_kind)

    def binding(self, able: Eligibility, rooms: Amounts) -> tuple[int, int]:
        """Returns (column, amount) of the resource that alone admits the fewest replicas; the scarcer of equals."""
        if len(able.request) < 2:
            return able.request[0] if able.request else (0, 0)
        return able.request[int((rooms @ self.nodes_per_kind).argmin())]


class FreeCapacities:
    """Free capacities by filter result, of one state of the nodes; `free` must not change any more."""

    def __init__(self, free: Amounts) -> None:
        self.free = free
        self._found: dict[tuple[FilterResult, bool], FreeCapacity] = {}

    def of(self, able: Eligibility) -> FreeCapacity:
        """Returns the free capacity of the eligible nodes; of empty ones only, if a replica needs a node to itself."""
        key = able.filter_result, able.capacity is not None
        if key not in self._found:
            self._found[key] = self._of(able)
        return self._found[key]

    def _of(self, able: Eligibility) -> FreeCapacity:
        """Returns the free capacity; nodes that differ in more than their free amounts are a kind of their own."""
        mask = able.mask
        if able.devices is None and able.capacity is None:
            amounts, of_node = self._sorts
            alike = np.bincount(of_node[mask], minlength=len(amounts))
            there = alike > 0
            sort_of = (there.cumsum() - 1)[of_node[mask]]
            return _sum_up(amounts[there], alike[there], sort_of, mask)
        amounts = np.maximum(self.free[mask], 0)
        if able.capacity is not None:
            amounts[np.any(amounts < able.capacity[mask], axis=1)] = 0
        each = np.arange(len(amounts))
        return _sum_up(amounts, np.ones_like(each), each, mask)

    @cached_property
    def _sorts(self) -> tuple[Amounts, NDArray[np.intp]]:
        """int64[S, R], the distinct rows of free amounts, and int[N], the row number of each node."""
        amounts = np.maximum(self.free, 0)
        order = np.lexsort(amounts.T)
        changes = np.any(np.diff(amounts[order], axis=0, prepend=-1), axis=1)
        of_node = np.empty(len(amounts), dtype=np.intp)
        of_node[order] = changes.cumsum() - 1
        return amounts[order[changes]], of_node


def _sum_up(amounts: Amounts, alike: Counts, sort_of: NDArray[np.intp], rows: Mask) -> FreeCapacity:
    return FreeCapacity(
        columns=tuple(np.ascontiguousarray(amounts.T)),
        nodes_per_kind=alike,
        kind_of=sort_of,
        rows=rows,
        total=tuple((alike @ amounts).tolist()),
        most=tuple(amounts.max(axis=0, initial=0).tolist()),
        nodes=tuple((alike @ (amounts > 0)).tolist()),
    )
