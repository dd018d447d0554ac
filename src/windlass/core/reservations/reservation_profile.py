"""The reservation profile: which nodes are reserved from when on, and what that leaves for gangs that start now.

Reservations are made for blocked gangs, in the order in which they are blocked, and by people
(`core.model.reservation`). A gang that starts now may use, on each node, the minimum of the free capacity now and at
the start of every reservation within its walltime: between those times gangs only end. A gang without a walltime never
ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge

import numpy as np

from windlass.core.model.gang import PendingGang, RunningGang, minimum_demands
from windlass.core.model.reservation import Reservation
from windlass.core.model.snapshot import Amounts, Grant, NodeTable, Snapshot
from windlass.core.nodes.allocation import allocate_grant, minimum_free, release_grant, update_shared_gpus
from windlass.core.nodes.feasibility import eligibility, room_per_node
from windlass.core.nodes.node_filters import Mask
from windlass.core.placement.empty_cluster_fit import fits_outside, usable_nodes
from windlass.core.placement.gang_placement import Placed, fits, place
from windlass.core.reservations.release_forecast import (
    NEVER,
    EarlyRelease,
    FutureCapacity,
    ReleaseForecast,
    TimedRelease,
    end_of,
)
from windlass.core.reservations.starvation_guard import (
    BRIEF_WALLTIME_MS,
    GuardedNodes,
    has_waited_long,
    is_brief,
    select_guarded_nodes,
)


@dataclass(frozen=True, slots=True, eq=False)
class GangReservation:
    """The reservation of a blocked gang: it starts at `start` at the latest, and holds `grant` until `until`.

    `start` follows from the walltimes of running gangs. It is NEVER if it takes the end of a gang without a walltime:
    the time is unknown.
    """

    gang: PendingGang
    start: int
    until: int
    grant: Grant
    free: Amounts
    """int64[N, R]: free capacity beside it at its start, reduced by every admitted gang that still runs then."""
    guarded: Mask | None = None
    """bool[N]: nodes on which only short gangs fill gaps (`core.reservations.starvation_guard`); None: no node."""


class ReservationProfile:
    """The profile of one plan. `free` (int64[N, R]) is the plan's own free capacity, which the plan keeps up to date.

    Reservations are computed when the first gang asks for its room: in most cycles no gang fits in any case.
    """

    def __init__(self, snapshot: Snapshot, now: int, free: Amounts) -> None:
        self._snapshot = snapshot
        self._now = now
        self._free = free
        self._limit = snapshot.policy.reservations
        self._blocked: list[tuple[PendingGang, Mask | None]] = []
        """Blocked gangs without a reservation yet, and the nodes (bool[N]) closed to them; None: no node."""
        self._reservations: list[GangReservation] = []
        self._waiting = np.zeros(len(snapshot.table.nodes), dtype=np.int64)
        """int64[N]: number of gangs, reserved or blocked, that could use each node."""
        self._contended: _ContendedNodes | None = None
        """Under a policy with a bound: the nodes on which the maximum number of gangs waits; None: no node."""
        self._forecast: ReleaseForecast | None = None
        self._strict: list[PendingGang] = []
        self._closed_nodes: Mask | None = None
        """Under a policy without backfill: the nodes that any blocked gang could use. None: no node."""
        self._starts: list[TimedRelease] = []
        self._later_starts: list[TimedRelease] = []
        """Gangs that started with the plan before the forecast was made, and since."""
        self._guarded = GuardedNodes(
            np.zeros_like(self._waiting, dtype=np.bool_), np.zeros_like(self._waiting, dtype=np.bool_)
        )
        self._rooms: dict[int, Amounts] = {}
        """Room by number of a reservation: free now and beside it; valid until a gang starts or is reserved."""
        self._early: list[EarlyRelease] = []
        """Early releases of this plan, for gangs that are reserved a place."""

    @property
    def allows_backfill(self) -> bool:
        """Whether a gang may pass a blocked one."""
        return self._limit != 0

    @property
    def is_closed(self) -> bool:
        """Whether no gang may start any more, on any node."""
        return self._closed_nodes is not None and bool(self._closed_nodes.all())

    # --- changes ----------------------------------------------------------------------------------------

    def add_start(self, gang: PendingGang, grant: Grant) -> None:
        """Records that the gang starts with this plan, on these nodes."""
        self._rooms.clear()
        end = TimedRelease(self._end_of(gang, self._now), grant)
        (self._starts if self._forecast is None else self._later_starts).append(end)
        for reservation in self._reservations:
            if overlaps(end.at, reservation):
                allocate_grant(self._snapshot.table, reservation.free, grant)

    def can_reserve(self, gang: PendingGang) -> bool:
        """Tells whether the gang, if it cannot start, gets a reservation of its own.

        The policy bounds the number of gangs that contend for the same nodes. A gang that would fit beside those nodes,
        were the others empty, is among the first for the others. Without backfill no gang passes another, so every gang
        gets one.
        """
        return self._contended is None or self._contended.leaves_room(self._snapshot.table, gang)

    def reserve(self, gang: PendingGang) -> None:
        """Reserves nodes for a gang that cannot start now: later gangs must not delay it. Requires `can_reserve`."""
        self._blocked.append((gang, self._contended.of(self._snapshot.table, gang) if self._contended else None))
        self._contend(gang)

    # --- queries ----------------------------------------------------------------------------------------

    def is_closed_to(self, gang: PendingGang) -> bool:
        """Tells whether all nodes that the gang could use are closed; always False if the policy has backfill."""
        closed_nodes = self._closed_nodes
        return closed_nodes is not None and not (usable_nodes(self._snapshot.table, gang.demands) > closed_nodes).any()

    def room(self, gang: PendingGang) -> Amounts:
        """Returns int64[N, R], read-only: what the gang may use if it starts now; `free` itself if all of it."""
        end = self._end_of(gang, self._now)
        room = self._free
        for reservation in self.reservations() if self._limit else ():
            if overlaps(end, reservation):
                room = minimum_free(self._snapshot.table, room, reservation.free)
        closed = _union(_union(self._closed_to(gang, self._now, end), self._guarded_against(gang)), self._closed_nodes)
        if closed is not None:
            room = room.copy(order="F")
            room[closed] = 0
            update_shared_gpus(self._snapshot.table, room, np.flatnonzero(closed))
        return room

    def conflicts_of(self, gang: PendingGang, start: int) -> tuple[list[GangReservation], Mask | None]:
        """Returns the reservations that the gang would overlap if it started at `start`, and the nodes closed to it."""
        end = self._end_of(gang, start)
        crossed = [
            reservation for reservation in (self.reservations() if self._limit else ()) if overlaps(end, reservation)
        ]
        closed = _union(self._closed_to(gang, self._now, end), self._guarded_against(gang))
        return crossed, _union(closed, self._closed_nodes)

    def reserve_for_eviction(self, gang: PendingGang, start: int, placed: Grant, given: Sequence[EarlyRelease]) -> None:
        """Reserves nodes from `start` (ms) on for a gang for which others are stopped; no gang may take them before.

        `given`: the resources that those others release then, instead of at their end.
        """
        table, until = self._snapshot.table, self._end_of(gang, start)
        self._rooms.clear()
        for reservation in self.reservations():
            for early in given:
                if start <= reservation.start < end_of(self._snapshot.running[early.job_id]):
                    release_grant(table, reservation.free, early.grant)
            if start <= reservation.start and overlaps(until, reservation):
                allocate_grant(table, reservation.free, placed)
        self._early += given
        self._starts, self._later_starts, self._forecast = [*self._starts, *self._later_starts], [], None
        beside = self._beside(self._forecasts(), start)
        allocate_grant(table, beside, placed)
        self._reservations.append(GangReservation(gang, start, until, placed, beside))
        self._contend(gang)

    def next_shorter_walltime(self, gang: PendingGang) -> int | None:
        """Returns the longest walltime in ms with which an equal gang would overlap fewer reservations; None: none."""
        end = self._end_of(gang, self._now)
        starts = [reservation.start for reservation in self.reservations() if self._now < reservation.start < end]
        starts += [each.start for each in self._foreign_reservations(gang) if self._now < each.start < end]
        starts += [self._now + BRIEF_WALLTIME_MS] if self._guarded_against(gang) is not None else []
        return max(starts) - self._now if starts else None

    def first_conflict(self, gang: PendingGang) -> PendingGang | None:
        """Returns the gang whose reservation keeps this one from starting now, the first of several; None: none."""
        table, end, first = self._snapshot.table, self._end_of(gang, self._now), None
        mine = usable_nodes(table, gang.demands)
        for number, reservation in enumerate(self.reservations() if self._limit else ()):
            closed = None if is_brief(gang) else reservation.guarded
            crossed = overlaps(end, reservation) and mine[reservation.grant.rows].any()
            if not crossed and (closed is None or not (mine & closed).any()):
                continue
            room = self._room_beside(number) if crossed else self._free
            if not _reduces_room(self._snapshot, self._free, gang, room, closed):
                continue
            if not fits(room, table, minimum_demands(gang.demands), closed):
                return reservation.gang
            first = reservation.gang if first is None else first
        return first

    def _room_beside(self, number: int) -> Amounts:
        """Returns the free capacity now and beside one of the reservations."""
        if number not in self._rooms:
            self._rooms[number] = minimum_free(self._snapshot.table, self._free, self._reservations[number].free)
        return self._rooms[number]

    def reservations(self) -> list[GangReservation]:
        """Returns the reservations in the order in which they were made."""
        if self._blocked:
            self._rooms.clear()
            forecast = self._forecasts()
            for gang, contended in self._blocked:
                self._reserve(forecast, gang, contended)
            self._blocked.clear()
        return self._reservations

    def reserved_masks(self) -> Iterator[tuple[PendingGang, Mask]]:
        """Yields the gangs that others must not delay, and the nodes reserved for them."""
        if self._limit == 0:
            for gang in self._strict:
                yield gang, usable_nodes(self._snapshot.table, gang.demands)
            return
        for reservation in self.reservations():
            mask = np.zeros(len(self._snapshot.table.nodes), dtype=np.bool_)
            mask[reservation.grant.rows] = True
            if reservation.guarded is not None:
                mask |= reservation.guarded
            yield reservation.gang, mask

    def _forecasts(self) -> ReleaseForecast:
        if self._forecast is None:
            self._forecast = ReleaseForecast(self._snapshot, self._now, self._free, self._starts, early=self._early)
        return self._forecast

    # --- making reservations ----------------------------------------------------------------------------

    def _reserve(self, forecast: ReleaseForecast, gang: PendingGang, contended: Mask | None) -> None:
        demands = minimum_demands(gang.demands)
        soonest = forecast.first_fit(demands, contended)
        for at, free in self._moments(forecast, gang, soonest) if soonest else ():
            until = self._end_of(gang, at)
            found = place(free, self._snapshot.table, demands, _union(self._closed_to(gang, at, until), contended))
            if found is None:
                continue
            beside = self._beside(forecast, at).copy(order="F") if at < NEVER else free.copy(order="F")
            allocate_grant(self._snapshot.table, beside, found.grant)
            for other in self._reservations:
                if at <= other.start < until:
                    allocate_grant(self._snapshot.table, other.free, found.grant)
            guarded = self._guard_nodes(forecast, gang, at, found, contended)
            self._reservations.append(GangReservation(gang, at, until, found.grant, beside, guarded))
            return

    def _guard_nodes(
        self, forecast: ReleaseForecast, gang: PendingGang, at: int, found: Placed, contended: Mask | None
    ) -> Mask | None:
        """Returns the nodes guarded for it; None if it may have to wait for a reservation made by people."""
        if not has_waited_long(self._snapshot.policy, gang, self._now):
            return None
        foreign = self._closed_to(gang, self._now, at)
        mine = usable_nodes(self._snapshot.table, gang.demands)
        if foreign is not None and (mine & foreign).any():
            return None
        last_ends = forecast.last_ends()
        guarded = select_guarded_nodes(self._snapshot.table, gang.demands, found, contended, last_ends, self._guarded)
        if guarded is not None:
            self._guarded = GuardedNodes(self._guarded.nodes | guarded, self._guarded.among | mine)
        return guarded

    def _guarded_against(self, gang: PendingGang) -> Mask | None:
        """Returns bool[N]: nodes guarded for gangs ahead, on which it may not start; None: no node."""
        if not self._limit or is_brief(gang):
            return None
        self.reservations()
        return self._guarded.nodes if self._guarded.any else None

    def _moments(
        self, forecast: ReleaseForecast, gang: PendingGang, soonest: FutureCapacity
    ) -> Iterator[FutureCapacity]:
        """Yields the times at which it may fit for the first time, with the capacity that it may use then."""
        if not self._reservations and not self._later_starts and not self._snapshot.reservations:
            yield soonest
            return
        known = {end.at for end in self._later_starts} | {reservation.until for reservation in self._reservations}
        known |= {each.end for each in self._foreign_reservations(gang)} | {max(soonest.at, self._now)}
        later = sorted(at for at in known if at >= soonest.at)
        last = None
        for at in merge(later, forecast.moments(soonest.at)):
            if at != last:
                yield FutureCapacity(at, self._free_throughout(forecast, at, self._end_of(gang, at)))
            last = at

    def _beside(self, forecast: ReleaseForecast, at: int) -> Amounts:
        """Returns the free capacity at a time that is not reserved."""
        free = forecast.free_at(at)
        for end in self._later_starts:
            if end.at > at:
                allocate_grant(self._snapshot.table, free, end.grant)
        for reservation in self._reservations:
            if reservation.start <= at < reservation.until or reservation.start == NEVER:
                allocate_grant(self._snapshot.table, free, reservation.grant)
        return free

    def _free_throughout(self, forecast: ReleaseForecast, at: int, until: int) -> Amounts:
        """Returns the capacity that is free from one time to another."""
        free = self._beside(forecast, at)
        for reservation in self._reservations:
            if at < reservation.start < until:
                free = minimum_free(self._snapshot.table, free, reservation.free)
        return free

    # --- reservations made by people ------------------------------------------------------------------

    def _foreign_reservations(self, gang: PendingGang) -> list[Reservation]:
        return [each for each in self._snapshot.reservations if not each.admits(gang.queue, gang.user)]

    def _closed_to(self, gang: PendingGang, start: int, end: int) -> Mask | None:
        """Returns the nodes that are reserved by others at any time from `start` to `end`; None: no node."""
        return nodes_closed_to(self._snapshot.table, self._snapshot.reservations, gang, start, end)

    # --- details ----------------------------------------------------------------------------------------

    def _contend(self, gang: PendingGang) -> None:
        mask = usable_nodes(self._snapshot.table, gang.demands)
        if self._limit == 0:
            self._strict.append(gang)
            self._closed_nodes = _union(self._closed_nodes, mask)
        elif self._limit > 0:
            self._waiting += mask
            self._contended = _ContendedNodes(self._waiting >= self._limit)

    def _end_of(self, gang: PendingGang, start: int) -> int:
        return NEVER if gang.walltime is None else min(start + gang.walltime, NEVER)


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


def nodes_closed_to(
    table: NodeTable, reservations: Sequence[Reservation], gang: PendingGang | RunningGang, start: int, end: int
) -> Mask | None:
    """Returns bool[N]: the nodes that people have reserved for others between `start` and `end`; None: no node."""
    others = [each.nodes for each in reservations if each.keeps_out(gang.queue, gang.user, start, end)]
    if not others:
        return None
    closed = np.zeros(len(table.nodes), dtype=np.bool_)
    closed[[table.row[name] for nodes in others for name in nodes if name in table.row]] = True
    return closed


def overlaps(end: int, reservation: GangReservation) -> bool:
    """Tells whether a gang that ends at `end` still runs when the reservation starts, which is any time for NEVER."""
    return reservation.start < end or reservation.start == NEVER


def _union(one: Mask | None, other: Mask | None) -> Mask | None:
    if one is None or other is None:
        return other if one is None else one
    return one | other


def _reduces_room(snapshot: Snapshot, free: Amounts, gang: PendingGang, room: Amounts, closed: Mask | None) -> bool:
    """Tells whether any node takes fewer replicas of some role with this room than with all free capacity."""
    asked = ((eligibility(snapshot.table, demand), demand.count) for demand in gang.demands)
    return any(
        (room_per_node(room, able, closed, count) < room_per_node(free, able, None, count)).any()
        for able, count in asked
    )
