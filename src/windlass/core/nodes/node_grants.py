"""The nodes with what running gangs hold of them: the node table, free capacity, and the grant of each gang."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from windlass.core.model.gang import RunningGang
from windlass.core.model.snapshot import Amounts, Grant, NodeTable, Snapshot
from windlass.core.nodes.allocation import allocate_grant, compute_grant, release_grant


class NodeGrants:
    """Free capacity and grants, which change in place. A snapshot shares them until `unshare`."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.free: Amounts = table.capacity.copy(order="F")
        self.grants: dict[str, Grant] = {}
        self._whole_nodes: set[str] | None = None
        """Ids of running gangs that hold whole nodes; None: not computed yet."""

    @classmethod
    def at(cls, snapshot: Snapshot) -> NodeGrants:
        """Returns the nodes of a snapshot. Free capacity is shared; call `unshare` before the first change."""
        nodes = cls(snapshot.table)
        nodes.free, nodes.grants = snapshot.free, dict(snapshot.grants)
        return nodes

    def unshare(self) -> None:
        """Copies the collections, so that the next changes are not visible in the last snapshot."""
        self.free = self.free.copy(order="F")
        self.grants = self.grants.copy()

    def hold(self, gang: RunningGang, grant: Grant | None = None) -> None:
        """Makes a gang hold its placement. `grant`: the amounts of the placement, if known."""
        self._grant(gang, grant)
        if self._whole_nodes is not None and _has_whole_nodes(gang):
            self._whole_nodes.add(gang.id)

    def release(self, job_id: str) -> None:
        """Frees the grant of a gang."""
        release_grant(self.table, self.free, self.grants.pop(job_id))
        if self._whole_nodes is not None:
            self._whole_nodes.discard(job_id)

    def refit(self, table: NodeTable, running: Mapping[str, RunningGang]) -> None:
        """Takes a table with the same rows and columns, and adds the change of capacity to the free amounts.

        Grants of whole nodes are computed again: such a gang holds the new capacity.
        """
        more = table.capacity - self.table.capacity
        self.table = table
        rows = np.flatnonzero(more.any(axis=1))
        self.free[rows] += more[rows]
        if self._whole_nodes is None:
            self._whole_nodes = {gang.id for gang in running.values() if _has_whole_nodes(gang)}
        for job_id in self._whole_nodes:
            if np.isin(rows, self.grants[job_id].rows).any():
                release_grant(self.table, self.free, self.grants[job_id])
                self._grant(running[job_id])

    def regrant(self, table: NodeTable, running: Mapping[str, RunningGang]) -> None:
        """Takes a table with other rows or columns, and computes all grants again."""
        self.table = table
        self.free = table.capacity.copy(order="F")
        for gang in running.values():
            self._grant(gang)

    def _grant(self, gang: RunningGang, grant: Grant | None = None) -> None:
        if grant is None or grant.amounts.shape[1] != len(self.table.resource_names):
            grant = compute_grant(self.table, gang.demands, gang.placement)
        self.grants[gang.id] = grant
        allocate_grant(self.table, self.free, grant)


def _has_whole_nodes(gang: RunningGang) -> bool:
    return any(demand.whole_node for demand in gang.demands)
