"""Simulates preemption for one gang: free capacity after other gangs have ended, updated gang by gang."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.gang import Demand, RunningGang, is_placed_elsewhere
from windlass.core.model.snapshot import Amounts, Grant, NodeTable
from windlass.core.nodes.allocation import allocate_grant, minimum_free, release_grant, update_shared_gpus
from windlass.core.nodes.feasibility import Counts, Eligibility, eligibility, room_per_node
from windlass.core.nodes.node_filters import Mask
from windlass.core.placement.gang_placement import Placed, fits, place
from windlass.core.reservations.gang_reservation import GangReservation
from windlass.core.reservations.release_forecast import NEVER


@dataclass(frozen=True, slots=True, eq=False)
class VictimRelease:
    """The amounts that one running gang releases, and whether it is stopped or shrunk for that."""

    run: RunningGang
    grant: Grant
    amounts: Mapping[str, int]
    whole: bool


class PreemptionSimulation:
    """Starts with the free capacity now, and beside each reservation that the gang would overlap.

    A gang that ends before a reservation starts is gone by then in any case and frees nothing beside it; nor does any
    gang beside a reservation without a known start, because that start may depend on its end. For equal replicas of one
    role without topology the room is counted per node and updated incrementally: the cost is that of the changed nodes.
    """

    def __init__(
        self,
        table: NodeTable,
        free: Amounts,
        demands: Sequence[Demand],
        reservations: Sequence[GangReservation] = (),
        closed: Mask | None = None,
    ) -> None:
        self._table = table
        self._demands = demands
        self._closed = closed
        self._free = free.copy(order="F")
        self._beside_reservations = [
            (reservation.start, reservation.free.copy(order="F")) for reservation in reservations
        ]
        able = eligibility(table, demands[0])
        plain = len(demands) == 1 and demands[0].topology is None and len(demands[0].gpu_types) < 2
        plain &= not is_placed_elsewhere(demands)
        self._able = able if plain and able.request and able.capacity is None and table.devices is None else None
        self._room = np.zeros(len(table.nodes), dtype=np.int64)
        self._recount()

    @property
    def free(self) -> Amounts:
        """int64[N, R], read-only: free capacity of the nodes, reservations ignored."""
        return self._free

    def release(self, *releases: VictimRelease) -> None:
        """Releases the resources of victims."""
        self._change(releases, 1)

    def restore(self, *releases: VictimRelease) -> None:
        """Takes back a release."""
        self._change(releases, -1)

    def allocate(self, grant: Grant) -> None:
        """Assigns resources to another gang."""
        allocate_grant(self._table, self._free, grant)
        self._recount()

    def fits(self) -> bool:
        """Tells whether the whole gang fits."""
        if self._able is None:
            return fits(self.room(), self._table, self._demands)
        return int(self._room.sum()) >= self._demands[0].count

    def slack(self) -> int:
        """Returns the number of additional replicas that would fit, where that is counted."""
        return int(self._room.sum()) - self._demands[0].count

    def losses(self, releases: Sequence[VictimRelease]) -> list[int]:
        """Returns, per release, the room that its return alone would cost; 0 where only a placement could tell."""
        if self._able is None or not releases:
            return [0] * len(releases)
        until = np.cumsum([len(each.grant.rows) for each in releases])
        rows = np.concatenate([each.grant.rows for each in releases])
        amounts = np.concatenate([each.grant.amounts for each in releases])
        lost = np.concatenate(([0], (self._room[rows] - self._count(self._able, rows, amounts)).cumsum()))
        found: list[int] = np.diff(lost[until], prepend=0).tolist()
        return found

    def place(self) -> Placed | None:
        """Returns the placement of the gang, or None."""
        return place(self.room(), self._table, self._demands, None)

    def gain(self, grant: Grant, demand: Demand) -> list[int]:
        """Returns, for each row of a grant, the additional replicas of a demand that would fit without the grant."""
        able, before = eligibility(self._table, demand), self.room()
        after = before.copy(order="F")
        release_grant(self._table, after, grant)
        gained = room_per_node(after, able, None, demand.count) - room_per_node(before, able, None, demand.count)
        return [int(number) for number in gained[grant.rows]]

    def useful_nodes(self, demands: Sequence[Demand]) -> Mask:
        """Returns bool[N]: nodes on which any role has room for a replica."""
        room = self.room()
        found: Mask = np.logical_or.reduce(
            [room_per_node(room, eligibility(self._table, demand), self._closed, 1) > 0 for demand in demands]
        )
        return found

    def room(self) -> Amounts:
        """Returns int64[N, R], read-only: the capacity that the gang may use."""
        room = self._free
        for _, free in self._beside_reservations:
            room = minimum_free(self._table, room, free)
        if self._closed is not None:
            room = room.copy(order="F")
            room[self._closed] = 0
            update_shared_gpus(self._table, room, np.flatnonzero(self._closed))
        return room

    def _change(self, releases: Sequence[VictimRelease], sign: int) -> None:
        _add(self._table, self._free, [each.grant for each in releases], sign)
        for start, free in self._beside_reservations:
            late = [each.grant for each in releases if each.run.ends_by is None or each.run.ends_by > start]
            _add(self._table, free, late if start != NEVER else [], sign)
        if self._able is None:
            return
        if len(releases) == 1:
            self._room[releases[0].grant.rows] = self._count(self._able, releases[0].grant.rows)
        else:
            self._recount()

    def _recount(self) -> None:
        if self._able is not None:
            self._room = room_per_node(self.room(), self._able, self._closed, self._demands[0].count)

    def _count(self, able: Eligibility, rows: NDArray[np.intp], less: Amounts | int = 0) -> Counts:
        """Counts the replicas that fit on these rows with `less` subtracted from the free capacity of each."""
        free = self._free[rows] - less
        for _, beside in self._beside_reservations:
            np.minimum(free, beside[rows] - less, out=free)
        room = np.full(len(rows), min(self._demands[0].count, able.per_node))
        for column, amount in able.request:
            np.minimum(room, free[:, column] // amount, out=room)
        usable = able.mask[rows] if self._closed is None else able.mask[rows] & ~self._closed[rows]
        counted: Counts = np.maximum(room, 0) * usable
        return counted


def _add(table: NodeTable, free: Amounts, grants: Sequence[Grant], sign: int) -> None:
    """Adds grants to free capacity, or subtracts them (sign -1)."""
    if len(grants) < 2:
        for grant in grants:
            (release_grant if sign > 0 else allocate_grant)(table, free, grant)
        return
    rows = np.concatenate([grant.rows for grant in grants])
    np.add.at(free, rows, sign * np.concatenate([grant.amounts for grant in grants]))
    update_shared_gpus(table, free, rows)
