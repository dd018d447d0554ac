"""Contention of blocked gangs for nodes, and the nodes that the policy closes for it."""

from __future__ import annotations

import numpy as np

from windlass.core.model.gang import PendingGang
from windlass.core.model.snapshot import NodeTable
from windlass.core.nodes.feasibility import eligibility
from windlass.core.nodes.node_filters import Mask, unite_masks
from windlass.core.placement.empty_cluster_fit import fits_outside, usable_nodes


class NodeContention:
    """The blocked gangs of one plan by the nodes that they could use.

    `limit`: the policy's maximum number of gangs with reservations on one node; 0: no backfill; below 0: no maximum.
    """

    def __init__(self, table: NodeTable, limit: int) -> None:
        self._table, self._limit = table, limit
        self._waiting = np.zeros(len(table.nodes), dtype=np.int64)
        """int64[N]: number of gangs, reserved or blocked, that could use each node."""
        self._contended: _ContendedNodes | None = None
        """Under a policy with a bound: the nodes on which the maximum number of gangs waits; None: no node."""
        self.strict: list[PendingGang] = []
        """Under a policy without backfill: the blocked gangs."""
        self.closed_nodes: Mask | None = None
        """Under a policy without backfill: the nodes that any blocked gang could use. None: no node."""

    def add(self, gang: PendingGang) -> None:
        """Counts a blocked gang on the nodes that it could use."""
        mask = usable_nodes(self._table, gang.demands)
        if self._limit == 0:
            self.strict.append(gang)
            self.closed_nodes = unite_masks(self.closed_nodes, mask)
        elif self._limit > 0:
            self._waiting += mask
            self._contended = _ContendedNodes(self._waiting >= self._limit)

    def can_reserve(self, gang: PendingGang) -> bool:
        """Tells whether the gang, if it cannot start, gets a reservation of its own.

        The policy bounds the number of gangs that contend for the same nodes. A gang that would fit beside those nodes,
        were the others empty, is among the first for the others. Without backfill no gang passes another, so every gang
        gets one.
        """
        return self._contended is None or self._contended.leaves_room(self._table, gang)

    def contended_nodes(self, gang: PendingGang) -> Mask | None:
        """Returns bool[N]: the nodes on which the maximum number of gangs waits; None if it could use none of them."""
        return self._contended.of(self._table, gang) if self._contended else None

    @property
    def allows_backfill(self) -> bool:
        """Whether a gang may pass a blocked one."""
        return self._limit != 0

    @property
    def is_closed(self) -> bool:
        """Whether no gang may start any more, on any node."""
        return self.closed_nodes is not None and bool(self.closed_nodes.all())

    def is_closed_to(self, gang: PendingGang) -> bool:
        """Tells whether all nodes that the gang could use are closed; always False if the policy has backfill."""
        closed = self.closed_nodes
        return closed is not None and not (usable_nodes(self._table, gang.demands) > closed).any()


class _ContendedNodes:
    """The nodes on which as many gangs wait as may hold reservations there."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._name = mask.tobytes()
        self._parts: dict[int, tuple[Mask, bool, bool]] = {}
        """By id of a mask (kept alive, so that the id stays unique): whether it has nodes outside, and inside."""

    def leaves_room(self, table: NodeTable, gang: PendingGang) -> bool:
        """Tells whether the gang would fit on the other nodes if these were empty, given that it would fit on all."""
        parts = [self._part(eligibility(table, demand).mask) for demand in gang.demands]
        if not all(outside for outside, _ in parts):
            return False
        return not any(inside for _, inside in parts) or fits_outside(table, gang, self._mask, self._name)

    def of(self, table: NodeTable, gang: PendingGang) -> Mask | None:
        """Returns bool[N]: these nodes; None if the gang could use none of them."""
        parts = [self._part(eligibility(table, demand).mask) for demand in gang.demands]
        return self._mask if any(inside for _, inside in parts) else None

    def _part(self, mask: Mask) -> tuple[bool, bool]:
        found = self._parts.get(id(mask))
        if found is None:
            found = self._parts[id(mask)] = mask, bool((mask > self._mask).any()), bool((mask & self._mask).any())
        return found[1:]
