"""Elastic growth: idle capacity that no waiting gang could use goes to elastic gangs below their maximum.

Gangs grow one after the other, from the queue with the lowest share first, the longest running first; each grows in
one step as far as possible and keeps its nodes. Growth is a stop and a start, so a gang grows no sooner than the
policy's interval after its start or last resize, and not when it would end before the interval has passed again.

Roles that scale in place grow to what their owner requests, without an interval, and like a gang that is backfilled:
on nodes that no reservation needs. The missing replicas are added together, or in an elastic role as many as fit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from windlass.core.model.gang import Demand, RunningGang
from windlass.core.model.plan import Resize
from windlass.core.model.resources import GPU_TYPE
from windlass.core.model.snapshot import Amounts, NodeTable, Snapshot
from windlass.core.model.status import Placement
from windlass.core.nodes.allocation import allocate_grant, minimum_free, update_shared_gpus
from windlass.core.nodes.exclusive_rows import ExclusiveRows
from windlass.core.nodes.node_filters import Mask
from windlass.core.nodes.topology_domains import level_number
from windlass.core.placement.elastic_resizing import elastic_role, role_in_place
from windlass.core.placement.gang_placement import Placed, fits, place
from windlass.core.queues.fair_share import Shares, total_capacity
from windlass.core.queues.limits import find_limit
from windlass.core.queues.quota import blocked_by_claims, exceeds_available, exceeds_own_quota
from windlass.core.queues.usage import QueueUsage
from windlass.core.reservations.declared_reservations import nodes_closed_to
from windlass.core.reservations.gang_reservation import GangReservation, overlaps
from windlass.core.reservations.release_forecast import end_of


@dataclass(frozen=True, slots=True, eq=False)
class IdleCapacity:
    """A plan after every waiting gang was considered. It is not modified."""

    snapshot: Snapshot
    now: int
    free: Amounts
    """int64[N, R]: free capacity now."""
    usage: QueueUsage
    reserved_usage: QueueUsage | None = None
    """Usage including the claims of waiting gangs; None: no gang waits for quota."""
    reservations: Sequence[GangReservation] = ()
    contended: Mask | None = None
    """bool[N]: nodes that a gang waiting for room could use; None: no such gang."""
    stopped: Collection[str] = field(default_factory=frozenset)
    """Ids of the gangs that this plan already stops or resizes."""


class _Candidate(NamedTuple):
    run: RunningGang
    role: Demand


def find_growth(idle: IdleCapacity) -> tuple[Resize, ...]:
    """Returns the gangs that grow, with their new placement. Pure."""
    candidates = [each for each in _growable(idle) if _is_worthwhile(idle, each)]
    if not candidates or not _anything_left(idle):
        return ()
    room, found = _Room(idle), []
    while candidates:
        # 1. by turn: shares follow what was assigned
        each = min(candidates, key=lambda each: room.turn(each.run))
        candidates.remove(each)
        # 2. as many replicas as fit and as quota permits
        more = room.most_more(each)
        if more is not None:
            room.give(each, more)
            number = len(more.placement.nodes[each.role.role])
            placement = _merged_placement(idle.snapshot.table, each, more.placement)
            why = "requested" if each.role.grows_in_place else "on nodes that no gang waits for"
            found.append(Resize(each.run.id, placement, f"{number} more, {why}"))
    return tuple(found)


def next_growth_at(idle: IdleCapacity) -> int | None:
    """Returns the time in ms at which the next gang that is too young now may grow; None: there is none."""
    moments = [_next_growth(idle, each) for each in _growable(idle)]
    return min((at for at in moments if at > idle.now), default=None)


def _next_growth(idle: IdleCapacity, each: _Candidate) -> int:
    if each.role.grows_in_place:
        return each.run.grow_after or 0
    return each.run.last_changed_at + idle.snapshot.policy.resize_interval


def _growable(idle: IdleCapacity) -> list[_Candidate]:
    found = []
    for run in idle.snapshot.elastic_or_stopping.values():
        role = role_in_place(run) or elastic_role(run)
        if role is None or role.count >= role.max_count or run.stopping or run.resize_to is not None:
            continue
        if run.id not in idle.stopped and (role.grows_in_place or _can_stay(idle.snapshot.table, run)):
            found.append(_Candidate(run, role))
    return found


def _can_stay(table: NodeTable, run: RunningGang) -> bool:
    """Tells whether a generation may still start on all of its nodes."""
    return all(name in table.row and table.usable[table.row[name]] for name in run.placement.distinct())


def _is_worthwhile(idle: IdleCapacity, each: _Candidate) -> bool:
    interval, run = idle.snapshot.policy.resize_interval, each.run
    if each.role.grows_in_place:
        return _next_growth(idle, each) <= idle.now
    return run.last_changed_at + interval <= idle.now and (run.ends_by is None or run.ends_by > idle.now + interval)


def _anything_left(idle: IdleCapacity) -> bool:
    return bool((idle.free > 0).any())


class _Room:
    """The capacity left while gangs grow."""

    def __init__(self, idle: IdleCapacity) -> None:
        self._table = idle.snapshot.table
        self._policy = idle.snapshot.policy
        self._now = idle.now
        self._advance_reservations = idle.snapshot.reservations
        self._contended = idle.contended
        self._free = idle.free.copy(order="F")
        self._beside_reservations = [
            (reservation, reservation.free.copy(order="F")) for reservation in idle.reservations
        ]
        self._usage = idle.usage.copy()
        self._spoken_for = None if idle.reserved_usage is None else idle.reserved_usage.copy()
        self._shares = Shares(self._usage, total_capacity(self._table), idle.snapshot.past_usage)

    def turn(self, run: RunningGang) -> tuple[int, int, int, int, str]:
        """Returns the sort key of a gang; the smallest grows first."""
        return self._shares.share(run.queue), -run.priority, run.since, run.number, run.id

    def most_more(self, each: _Candidate) -> Placed | None:
        """Returns the placement of the largest possible number of additional replicas; None: not even one."""
        free, role = self._for(each), self._more_of(each)

        def able(count: int) -> bool:
            asked = replace(role, count=count)
            return self._has_quota(each, count) and fits(free, self._table, [asked])

        low, high = 0, role.max_count - role.count
        if role.grows_in_place and not role.min_count:  # all of them or none
            return place(free, self._table, [replace(role, count=high)], None, self._policy) if able(high) else None
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if able(middle) else (low, middle - 1)
        return place(free, self._table, [replace(role, count=low)], None, self._policy) if low else None

    def give(self, each: _Candidate, more: Placed) -> None:
        """Assigns additional replicas."""
        allocate_grant(self._table, self._free, more.grant)
        for reservation, free in self._beside_reservations:
            if overlaps(end_of(each.run), reservation):
                allocate_grant(self._table, free, more.grant)
        amounts = _times(each.role, len(more.placement.nodes[each.role.role]))
        for usage in (self._usage, self._spoken_for):
            if usage is not None:
                usage.add(each.run.queue, each.run.user, amounts, jobs=0)

    def _for(self, each: _Candidate) -> Amounts:
        """Returns int64[N, R], a copy: the capacity that the gang may use until its end, beside its own."""
        room = self._free.copy(order="F")
        for reservation, free in self._beside_reservations:
            if overlaps(end_of(each.run), reservation):
                room = minimum_free(self._table, room, free)
        closed = np.flatnonzero(self._closed(each))
        room[closed] = 0
        update_shared_gpus(self._table, room, closed)
        return room

    def _closed(self, each: _Candidate) -> Mask:
        """Returns bool[N]: nodes on which it may not grow: contended, reserved, or outside its topology domain."""
        contended = None if each.role.grows_in_place else self._contended
        closed = np.zeros(len(self._table.nodes), dtype=np.bool_) if contended is None else contended.copy()
        foreign = nodes_closed_to(self._table, self._advance_reservations, each.run, self._now, end_of(each.run))
        if foreign is not None:
            closed |= foreign
        occupied = ExclusiveRows()
        for demand in each.run.demands:
            occupied.add(demand, _rows(self._table, each.run, demand.role), len(self._table.nodes))
        held = occupied.closed_to(each.role)
        closed |= False if held is None else held
        near = each.role.topology
        level = None if near is None else level_number(self._table, near.level)
        if near is not None and near.required and level is not None:
            domains = self._table.domains[:, level]
            rows = _rows(self._table, each.run, each.role.role) or _rows(self._table, each.run)
            mine = set(domains[rows].tolist())
            closed |= ~np.isin(domains, list(mine)) if len(mine) == 1 else True
        return closed

    def _more_of(self, each: _Candidate) -> Demand:
        """Returns the role of additional replicas: on the GPU model of the present ones. `_closed` limits the nodes."""
        types = each.role.gpu_types
        present = _rows(self._table, each.run, each.role.role) if len(types) > 1 else []
        if present:
            types = (self._table.nodes[present[0]].labels.get(GPU_TYPE, types[0]),)
        return replace(each.role, topology=None, gpu_types=types)

    def _has_quota(self, each: _Candidate, count: int) -> bool:
        run, amounts = each.run, _times(each.role, count)
        if exceeds_available(self._usage, run.queue, amounts):
            return False
        if not run.preemptible and exceeds_own_quota(self._usage, run.queue, amounts)[0]:
            return False
        if find_limit(self._usage, run.queue, run.user, amounts, jobs=0):
            return False
        return self._spoken_for is None or not blocked_by_claims(self._spoken_for, run.queue, amounts)


def _rows(table: NodeTable, run: RunningGang, role: str | None = None) -> list[int]:
    """Returns the rows of a role's replicas, or of all; a gang that grows in place may have some on removed nodes."""
    names = run.placement.distinct() if role is None else run.placement.nodes.get(role, ())
    return [table.row[name] for name in names if name in table.row]


def _times(role: Demand, count: int) -> dict[str, int]:
    return {name: amount * count for name, amount in role.resources.items()}


def _merged_placement(table: NodeTable, each: _Candidate, more: Placement) -> Placement:
    """Returns all replicas in the order of rows, so that neighbouring ranks are neighbours in the network.

    Replicas that are added in place come last.
    """
    role, old = each.role.role, each.run.placement
    names = (*old.nodes.get(role, ()), *more.nodes[role])
    order = list(range(len(names)))
    if not each.role.grows_in_place:
        order.sort(key=lambda number: table.row[names[number]])
    nodes = {**old.nodes, role: tuple(names[number] for number in order)}
    if role not in old.devices and role not in more.devices:
        return Placement(nodes, old.devices)
    devices = (*_devices(old, role), *_devices(more, role))
    return Placement(nodes, {**old.devices, role: tuple(devices[number] for number in order)})


def _devices(placement: Placement, role: str) -> Sequence[tuple[int, ...]]:
    return placement.devices.get(role) or ((),) * len(placement.nodes.get(role, ()))
