"""What a plan has given away so far, and what is spoken for by gangs that have to wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property
from typing import NamedTuple

import numpy as np

from windlass.core.booking import take
from windlass.core.feasibility import Mask, eligibility, kind_of, remember, room_when_empty
from windlass.core.gang import Demand, Pending, Turn, total_of
from windlass.core.gates import shut
from windlass.core.placement import Placed, fits, place
from windlass.core.policy import turn_of
from windlass.core.quota import lacking, queue_named
from windlass.core.snapshot import Grant, NodeTable, Snapshot
from windlass.core.status import Placement
from windlass.core.stock import Stocks


class Obstacle(Enum):
    """What kept a gang from starting, in the order in which it is looked for."""

    GATE = auto()
    NEVER = auto()
    """No gang's end can help: too few nodes pass its masks, or its queue's quota is too small for it."""
    QUOTA = auto()
    CAPACITY = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Hold:
    """A gang that waits for nodes to become free, and keeps those it could use from everybody behind it."""

    gang: Pending
    mask: Mask
    first: bool
    """Nobody ahead of it waits for any of these nodes, nor for the same quota."""


class Start(NamedTuple):
    """A gang that starts, where, and what it takes there."""

    gang: Pending
    placement: Placement
    grant: Grant


class Trial:
    """Begins as its snapshot stands. Only `attempt` changes it."""

    def __init__(self, snapshot: Snapshot, now: int) -> None:
        self.snapshot = snapshot
        self.now = now
        self.free = snapshot.free.copy(order="F")
        self.used: dict[str, Mapping[str, int]] = dict(snapshot.held)
        """By queue: held by running gangs and by those this plan starts."""
        self.arrays = dict(snapshot.arrays)
        self.started: list[Start] = []
        self.obstacles: dict[str, Obstacle] = {}
        """By id of the gangs that were attempted in vain."""
        self.reserved: dict[str, Mapping[str, int]] = {}
        """By queue that has a quota: what gangs that wait in it will need; nobody behind them may use it up."""
        self.first_in: dict[str, Pending] = {}
        """By queue: the first gang that reserved."""
        self.holds: list[Hold] = []
        """By turn; only those that hold a node which nobody ahead of them holds."""
        self.contended = False
        """Every node that anybody who waits could use is held: nobody further down can start."""
        self._closed: Mask | None = None
        """The nodes that are held. None: no node."""
        self._awaited: Mask | None = None
        """The nodes that some waiting gang could use, held or not."""

    def turn(self, gang: Pending) -> Turn:
        """Its turn under the policy of the day."""
        return turn_of(gang, self.snapshot.policy)

    def attempt(self, gang: Pending) -> Placement | None:
        """Start the gang, or note what it has to wait for and what it keeps from those behind it."""
        obstacle = self._limit(gang)
        if obstacle is None:
            mask = mask_of(self.snapshot.table, gang.demands)
            found = self._place(gang, mask)
            if found is not None:
                self._start(gang, found)
                return found.placement
            obstacle = Obstacle.CAPACITY
            self._hold(gang, mask)
        self.obstacles[gang.id] = obstacle
        if obstacle in (Obstacle.QUOTA, Obstacle.CAPACITY):
            self._reserve(gang)
        return None

    @cached_property
    def _wanted(self) -> Mask:
        """The nodes of the kinds that anybody who waits asks for, whatever their size."""
        lines = self.snapshot.lines
        kinds = {kind_of(demand): demand for line in lines for demand in line.gangs[0].demands}
        table = self.snapshot.table
        wanted: Mask = np.logical_or.reduce([eligibility(table, replace(d, resources={})).mask for d in kinds.values()])
        return wanted

    @cached_property
    def stock(self) -> Stocks:
        """What is free now. To be asked for when the last gang has been attempted."""
        return Stocks(self.free)

    @cached_property
    def stock_if_empty(self) -> Stocks:
        """What would be free if nothing ran."""
        return Stocks(self.snapshot.table.capacity)

    def _limit(self, gang: Pending) -> Obstacle | None:
        queue = queue_named(self.snapshot.queues, gang.queue)
        if shut(gang, self.arrays, self.now):
            return Obstacle.GATE
        if queue is None or not fits_empty(self.snapshot.table, gang):
            return Obstacle.NEVER
        if not queue.nominal:
            return None
        request = total_of(gang.demands)
        if lacking(queue, {}, request):
            return Obstacle.NEVER
        spoken_for = add_up(self.used.get(gang.queue, {}), self.reserved.get(gang.queue, {}))
        return Obstacle.QUOTA if lacking(queue, spoken_for, request) else None

    def _place(self, gang: Pending, mask: Mask) -> Placed | None:
        if self._closed is not None and not (mask > self._closed).any():
            return None
        return place(self.free, self.snapshot.table, gang.demands, self._closed)

    def _start(self, gang: Pending, found: Placed) -> None:
        take(self.snapshot.table, self.free, found.grant)
        self.used[gang.queue] = add_up(self.used.get(gang.queue, {}), total_of(gang.demands))
        if gang.array_id:
            self.arrays[gang.array_id] = self.arrays.get(gang.array_id, 0) + 1
        self.started.append(Start(gang, *found))

    def _hold(self, gang: Pending, mask: Mask) -> None:
        """Keep the nodes it could use. Only for gangs that lack nodes: a queue's own shortage blocks no other queue."""
        if self._closed is not None and not (mask > self._closed).any():
            return
        alone = self._awaited is None or not (self._awaited & mask).any()
        self.holds.append(Hold(gang, mask, first=alone and gang.queue not in self.first_in))
        self._closed = mask if self._closed is None else self._closed | mask
        self.contended = bool((self._closed >= self._wanted).all())

    def _reserve(self, gang: Pending) -> None:
        """Keep the quota it will need, in queues that have one, and remember which nodes it waits for."""
        mask = mask_of(self.snapshot.table, gang.demands)
        self._awaited = mask if self._awaited is None else self._awaited | mask
        queue = self.snapshot.queues.get(gang.queue)
        if queue is not None and queue.nominal:
            self.reserved[gang.queue] = add_up(self.reserved.get(gang.queue, {}), total_of(gang.demands))
            self.first_in.setdefault(gang.queue, gang)


def fits_empty(table: NodeTable, gang: Pending) -> bool:
    """Whether the gang would fit if nothing else ran."""
    first = gang.demands[0]
    if len(gang.demands) == 1 and first.topology is None and len(first.gpu_types) < 2:
        return room_when_empty(eligibility(table, first), first.count) >= first.count
    key = ("fits", gang.shape)
    found: bool | None = table.derived.get(key)
    return remember(table, key, fits(table.capacity, table, gang.demands)) if found is None else found


def mask_of(table: NodeTable, demands: tuple[Demand, ...]) -> Mask:
    """The nodes that any of the gang's roles could use."""
    masks = [eligibility(table, demand).mask for demand in demands]
    return masks[0] if len(masks) == 1 else np.logical_or.reduce(masks)


def add_up(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    """Exact sum by resource."""
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total
