"""What will be free for one gang once others have gone, followed gang by gang."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from windlass.core.booking import give_back, lower, settle, take
from windlass.core.feasibility import Eligibility, Mask, eligibility, room_per_node
from windlass.core.forecast import NEVER
from windlass.core.gang import Demand, Running
from windlass.core.placement import Placed, fits, place
from windlass.core.snapshot import Amounts, Grant, NodeTable
from windlass.core.timetable import Promise


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What one running gang gives back, and whether it is stopped for that or made smaller."""

    run: Running
    grant: Grant
    amounts: Mapping[str, int]
    whole: bool


class Clearing:
    """Begins with what is free now, and beside each promise that the gang would run into.

    Whoever ends before a promise is due is gone by then anyway, and frees nothing beside it; nor does anybody beside a
    promise of which nobody knows when it is due, because that may count on his end. For equal replicas of
    one role without a topology the room is counted node by node and kept up: a change costs what it changes.
    """

    def __init__(
        self,
        table: NodeTable,
        free: Amounts,
        demands: Sequence[Demand],
        promises: Sequence[Promise] = (),
        closed: Mask | None = None,
    ) -> None:
        self._table = table
        self._demands = demands
        self._closed = closed
        self._now = free.copy(order="F")
        self._beside = [(promise.start, promise.free.copy(order="F")) for promise in promises]
        able = eligibility(table, demands[0])
        plain = len(demands) == 1 and demands[0].topology is None and len(demands[0].gpu_types) < 2
        self._able = able if plain and able.request and able.capacity is None and table.devices is None else None
        self._room = np.zeros(len(table.nodes), dtype=np.int64)
        self._recount()

    @property
    def free(self) -> Amounts:
        """int64[N, R], to be read only: on the nodes, whatever is promised."""
        return self._now

    def give(self, *given: Given) -> None:
        """These are gone."""
        self._change(given, 1)

    def undo(self, *given: Given) -> None:
        """They are there again."""
        self._change(given, -1)

    def take(self, grant: Grant) -> None:
        """Somebody else has this."""
        take(self._table, self._now, grant)
        self._recount()

    def fits(self) -> bool:
        """Whether there is room for all of the gang."""
        if self._able is None:
            return fits(self.room(), self._table, self._demands)
        return int(self._room.sum()) >= self._demands[0].count

    def place(self) -> Placed | None:
        """Where it would go."""
        return place(self.room(), self._table, self._demands, None)

    def gain(self, grant: Grant, demand: Demand) -> list[int]:
        """For each of the grant's rows: for how many more replicas of the demand there would be room without it."""
        able, before = eligibility(self._table, demand), self.room()
        after = before.copy(order="F")
        give_back(self._table, after, grant)
        gained = room_per_node(after, able, None, demand.count) - room_per_node(before, able, None, demand.count)
        return [int(number) for number in gained[grant.rows]]

    def helps(self, demands: Sequence[Demand]) -> Mask:
        """bool[N]: where any role finds room for a replica at all."""
        room = self.room()
        found: Mask = np.logical_or.reduce(
            [room_per_node(room, eligibility(self._table, demand), self._closed, 1) > 0 for demand in demands]
        )
        return found

    def room(self) -> Amounts:
        """int64[N, R], to be read only: what the gang may use."""
        room = self._now
        for _, free in self._beside:
            room = lower(self._table, room, free)
        if self._closed is not None:
            room = room.copy(order="F")
            room[self._closed] = 0
            settle(self._table, room, np.flatnonzero(self._closed))
        return room

    def _change(self, given: Sequence[Given], sign: int) -> None:
        change = give_back if sign > 0 else take
        for each in given:
            change(self._table, self._now, each.grant)
            for start, free in self._beside:
                if start != NEVER and (each.run.ends_by is None or each.run.ends_by > start):
                    change(self._table, free, each.grant)
        if self._able is None:
            return
        if len(given) == 1:
            self._count(self._able, given[0].grant)
        else:
            self._recount()

    def _recount(self) -> None:
        if self._able is not None:
            self._room = room_per_node(self.room(), self._able, self._closed, self._demands[0].count)

    def _count(self, able: Eligibility, grant: Grant) -> None:
        """Count anew on these nodes."""
        rows = grant.rows
        free = self._now[rows]
        for _, beside in self._beside:
            np.minimum(free, beside[rows], out=free)
        room = np.full(len(rows), self._demands[0].count)
        for column, amount in able.request:
            np.minimum(room, free[:, column] // amount, out=room)
        usable = able.mask[rows] if self._closed is None else able.mask[rows] & ~self._closed[rows]
        self._room[rows] = np.maximum(room, 0) * usable
