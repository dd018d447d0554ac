"""The reservation profile: which nodes are reserved from when on, and what that leaves for gangs that start now.

Reservations are made for blocked gangs, in the order in which they are blocked, and by people
(`core.model.reservation`). A gang that starts now may use, on each node, the minimum of the free capacity now and at
the start of every reservation within its walltime: between those times gangs only end. A gang without a walltime never
ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from windlass.core.model.gang import PendingGang, minimum_demands
from windlass.core.model.snapshot import Amounts, Grant, Snapshot
from windlass.core.nodes.allocation import allocate_grant, minimum_free, release_grant, update_shared_gpus
from windlass.core.nodes.feasibility import eligibility, room_per_node
from windlass.core.nodes.node_filters import Mask, unite_masks
from windlass.core.placement.empty_cluster_fit import usable_nodes
from windlass.core.placement.gang_placement import Placed, fits, place
from windlass.core.reservations.declared_reservations import nodes_closed_to, reservations_against
from windlass.core.reservations.free_timeline import FreeTimeline
from windlass.core.reservations.gang_reservation import GangReservation, overlaps, walltime_end
from windlass.core.reservations.node_contention import NodeContention
from windlass.core.reservations.release_forecast import NEVER, EarlyRelease, TimedRelease, end_of
from windlass.core.reservations.starvation_guard import (
    BRIEF_WALLTIME_MS,
    GuardedNodes,
    has_waited_long,
    is_brief,
    select_guarded_nodes,
)


class ReservationProfile:
    """The profile of one plan. `free` (int64[N, R]) is the plan's own free capacity, which the plan keeps up to date.

    Reservations are computed when the first gang asks for its free capacity: in most cycles no gang fits in any case.
    `contention`: which gangs get a reservation, and which nodes are closed to later gangs.
    """

    def __init__(self, snapshot: Snapshot, now: int, free: Amounts) -> None:
        self._snapshot = snapshot
        self._now = now
        self._free = free
        self._limit = snapshot.policy.reservations
        self._blocked: list[tuple[PendingGang, Mask | None]] = []
        """Blocked gangs without a reservation yet, and the nodes (bool[N]) closed to them; None: no node."""
        self.contention = NodeContention(snapshot.table, self._limit)
        self._timeline = FreeTimeline(snapshot, now, free)
        self._guarded = GuardedNodes(
            np.zeros(len(snapshot.table.nodes), dtype=np.bool_), np.zeros(len(snapshot.table.nodes), dtype=np.bool_)
        )
        self._free_beside: dict[int, Amounts] = {}
        """By number of a reservation: free now and beside it; valid until a gang starts or is reserved."""

    # --- changes ----------------------------------------------------------------------------------------

    def add_start(self, gang: PendingGang, grant: Grant) -> None:
        """Records that the gang starts with this plan, on these nodes."""
        self._free_beside.clear()
        self._timeline.add_start(TimedRelease(walltime_end(gang, self._now), grant))

    def reserve(self, gang: PendingGang) -> None:
        """Reserves nodes for a gang that cannot start now: later gangs must not delay it.

        Requires `contention.can_reserve`.
        """
        self._blocked.append((gang, self.contention.contended_nodes(gang)))
        self.contention.add(gang)

    # --- queries ----------------------------------------------------------------------------------------

    def free_for(self, gang: PendingGang) -> Amounts:
        """Returns int64[N, R], read-only: what the gang may use if it starts now; `free` itself if all of it."""
        end = walltime_end(gang, self._now)
        free = self._free
        for reservation in self.reservations() if self._limit else ():
            if overlaps(end, reservation):
                free = minimum_free(self._snapshot.table, free, reservation.free)
        closed = self._closed_to(gang, end)
        if closed is not None:
            free = free.copy(order="F")
            free[closed] = 0
            update_shared_gpus(self._snapshot.table, free, np.flatnonzero(closed))
        return free

    def conflicts_of(self, gang: PendingGang, start: int) -> tuple[list[GangReservation], Mask | None]:
        """Returns the reservations that the gang would overlap if it started at `start`, and the nodes closed to it."""
        end = walltime_end(gang, start)
        crossed = [
            reservation for reservation in (self.reservations() if self._limit else ()) if overlaps(end, reservation)
        ]
        return crossed, self._closed_to(gang, end)

    def reserve_for_eviction(self, gang: PendingGang, start: int, placed: Grant, given: Sequence[EarlyRelease]) -> None:
        """Reserves nodes from `start` (ms) on for a gang for which others are stopped; no gang may take them before.

        `given`: the resources that those others release then, instead of at their end.
        """
        table, until = self._snapshot.table, walltime_end(gang, start)
        self._free_beside.clear()
        for reservation in self.reservations():
            for early in given:
                if start <= reservation.start < end_of(self._snapshot.running[early.job_id]):
                    release_grant(table, reservation.free, early.grant)
            if start <= reservation.start and overlaps(until, reservation):
                allocate_grant(table, reservation.free, placed)
        self._timeline.release_early(given)
        free = self._timeline.free_at(start)
        allocate_grant(table, free, placed)
        self._timeline.reservations.append(GangReservation(gang, start, until, placed, free))
        self.contention.add(gang)

    def next_shorter_walltime(self, gang: PendingGang) -> int | None:
        """Returns the longest walltime in ms with which an equal gang would overlap fewer reservations; None: none."""
        end = walltime_end(gang, self._now)
        starts = [reservation.start for reservation in self.reservations() if self._now < reservation.start < end]
        starts += [
            each.start
            for each in reservations_against(self._snapshot.reservations, gang)
            if self._now < each.start < end
        ]
        starts += [self._now + BRIEF_WALLTIME_MS] if self._guarded_against(gang) is not None else []
        return max(starts) - self._now if starts else None

    def first_conflict(self, gang: PendingGang) -> PendingGang | None:
        """Returns the gang whose reservation keeps this one from starting now, the first of several; None: none."""
        table, end, first = self._snapshot.table, walltime_end(gang, self._now), None
        mine = usable_nodes(table, gang.demands)
        for number, reservation in enumerate(self.reservations() if self._limit else ()):
            closed = None if is_brief(gang) else reservation.guarded
            crossed = overlaps(end, reservation) and mine[reservation.grant.rows].any()
            if not crossed and (closed is None or not (mine & closed).any()):
                continue
            free = self._capacity_beside(number) if crossed else self._free
            if not _reduces_room(self._snapshot, self._free, gang, free, closed):
                continue
            if not fits(free, table, minimum_demands(gang.demands), closed):
                return reservation.gang
            first = reservation.gang if first is None else first
        return first

    def _capacity_beside(self, number: int) -> Amounts:
        """Returns the free capacity now and beside one of the reservations."""
        if number not in self._free_beside:
            beside = self._timeline.reservations[number].free
            self._free_beside[number] = minimum_free(self._snapshot.table, self._free, beside)
        return self._free_beside[number]

    def reservations(self) -> list[GangReservation]:
        """Returns the reservations in the order in which they were made."""
        if self._blocked:
            self._free_beside.clear()
            for gang, contended in self._blocked:
                self._reserve(gang, contended)
            self._blocked.clear()
        return self._timeline.reservations

    def reserved_masks(self) -> Iterator[tuple[PendingGang, Mask]]:
        """Yields the gangs that others must not delay, and the nodes reserved for them."""
        if self._limit == 0:
            for gang in self.contention.strict:
                yield gang, usable_nodes(self._snapshot.table, gang.demands)
            return
        for reservation in self.reservations():
            mask = np.zeros(len(self._snapshot.table.nodes), dtype=np.bool_)
            mask[reservation.grant.rows] = True
            if reservation.guarded is not None:
                mask |= reservation.guarded
            yield reservation.gang, mask

    # --- making reservations ----------------------------------------------------------------------------

    def _reserve(self, gang: PendingGang, contended: Mask | None) -> None:
        table, timeline, demands = self._snapshot.table, self._timeline, minimum_demands(gang.demands)
        soonest = timeline.forecast.first_fit(demands, contended)
        for at, free in timeline.possible_starts(gang, soonest) if soonest else ():
            until = walltime_end(gang, at)
            reserved = nodes_closed_to(table, self._snapshot.reservations, gang, at, until)
            found = place(free, table, demands, unite_masks(reserved, contended))
            if found is None:
                continue
            beside = (timeline.free_at(at) if at < NEVER else free).copy(order="F")
            allocate_grant(table, beside, found.grant)
            for other in timeline.reservations:
                if at <= other.start < until:
                    allocate_grant(table, other.free, found.grant)
            guarded = self._guard_nodes(gang, at, found, contended)
            timeline.reservations.append(GangReservation(gang, at, until, found.grant, beside, guarded))
            return

    def _guard_nodes(self, gang: PendingGang, at: int, found: Placed, contended: Mask | None) -> Mask | None:
        """Returns the nodes guarded for it; None if it may have to wait for a reservation made by people."""
        if not has_waited_long(self._snapshot.policy, gang, self._now):
            return None
        reserved = nodes_closed_to(self._snapshot.table, self._snapshot.reservations, gang, self._now, at)
        mine = usable_nodes(self._snapshot.table, gang.demands)
        if reserved is not None and (mine & reserved).any():
            return None
        last_ends = self._timeline.forecast.last_ends()
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

    # --- nodes closed to a gang ---------------------------------------------------------------------------

    def _closed_to(self, gang: PendingGang, end: int) -> Mask | None:
        """Returns bool[N]: nodes closed to a gang that runs from now to `end`, for any reason; None: no node."""
        reserved = nodes_closed_to(self._snapshot.table, self._snapshot.reservations, gang, self._now, end)
        return unite_masks(unite_masks(reserved, self._guarded_against(gang)), self.contention.closed_nodes)


def _reduces_room(snapshot: Snapshot, free: Amounts, gang: PendingGang, room: Amounts, closed: Mask | None) -> bool:
    """Tells whether any node takes fewer replicas of some role with this room than with all free capacity."""
    asked = ((eligibility(snapshot.table, demand), demand.count) for demand in gang.demands)
    return any(
        (room_per_node(room, able, closed, count) < room_per_node(free, able, None, count)).any()
        for able, count in asked
    )
