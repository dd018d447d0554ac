"""Upper bounds of the room for a gang, as cheap tests before a placement is tried."""

from __future__ import annotations

import numpy as np

from windlass.core.model.gang import PendingGang, is_placed_elsewhere
from windlass.core.model.snapshot import Amounts, NodeTable
from windlass.core.nodes.feasibility import eligibility


class RoomBounds:
    """Bounds by the free capacity (int64[N, R]), which changes in place: call `clear` after each change."""

    def __init__(self, table: NodeTable, free: Amounts) -> None:
        self._table, self._free = table, free
        self._largest: list[int] | None = None
        """By column: the largest free amount on one node."""
        self._replicas: dict[tuple[int, int], int] = {}
        """By column and amount: how many replicas that need so much of it fit on all nodes together."""

    def clear(self) -> None:
        """Forgets bounds of earlier free capacity."""
        self._largest = None
        self._replicas.clear()

    def exceeds_every_node(self, gang: PendingGang) -> bool:
        """Tells whether no node has room for one replica of some role."""
        if self._largest is None:
            self._largest = self._free.max(axis=0, initial=0).tolist()
        largest = self._largest
        for demand in () if is_placed_elsewhere(gang.demands) else gang.demands:
            for column, amount in eligibility(self._table, demand).request:
                if amount > largest[column]:
                    return True
        return False

    def exceeds_total(self, gang: PendingGang) -> bool:
        """Tells whether some role has too few places even by its scarcest resource alone."""
        for demand in gang.demands:
            for column, amount in eligibility(self._table, demand).request[:1]:
                room = self._replicas.get((column, amount))
                if room is None:
                    room = int((np.maximum(self._free[:, column], 0) // amount).sum())
                    self._replicas[column, amount] = room
                if room < (demand.min_count or demand.count):
                    return True
        return False
