"""The state of one scheduling cycle: what it has given away so far, and what it keeps for blocked gangs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

from windlass.core.model.gang import Demand, PendingGang, SortKey, demands_as_placed, total_of
from windlass.core.model.obstacle import LACKS_NODES, WITHOUT_QUOTA_CLAIM, Obstacle
from windlass.core.model.reasons import Reason
from windlass.core.model.snapshot import Amounts, Grant, Snapshot
from windlass.core.model.status import Placement
from windlass.core.nodes.allocation import allocate_grant
from windlass.core.nodes.feasibility import eligibility
from windlass.core.nodes.free_capacity import FreeCapacities
from windlass.core.nodes.node_filters import Mask
from windlass.core.placement.elastic_resizing import place_largest
from windlass.core.placement.empty_cluster_fit import fits_empty
from windlass.core.placement.gang_placement import Placed, place
from windlass.core.preemption.preemption_simulation import VictimRelease
from windlass.core.preemption.victim_search import Eviction, expected_releases
from windlass.core.queues.admission_gates import is_gated
from windlass.core.queues.fair_share import Shares, total_capacity
from windlass.core.queues.limits import find_limit
from windlass.core.queues.orders.registry import order_of, sort_key_of
from windlass.core.queues.queue_tree import tree_of
from windlass.core.queues.quota import blocked_by_claims, claim_queue, exceeds_available, exceeds_maximum, queue_named
from windlass.core.queues.usage import QueueUsage
from windlass.core.reservations.release_forecast import EarlyRelease
from windlass.core.reservations.reservation_profile import ReservationProfile


class ReservedNodes(NamedTuple):
    """A blocked gang, and the nodes (bool[N]) of which a part is reserved for it."""

    gang: PendingGang
    mask: Mask


class Start(NamedTuple):
    """A gang that starts, its placement, and what it takes there."""

    gang: PendingGang
    placement: Placement
    grant: Grant


class SchedulingCycle:
    """Mutable state of one cycle, which begins as its snapshot stands.

    Changed by `try_to_start`, `start`, `block` and `block_until_released` alone.
    """

    def __init__(self, snapshot: Snapshot, now: int, watched: str = "") -> None:
        """`watched`: id of a gang whose view of the nodes is kept in `watched_view`, to explain its placement."""
        self._watched = watched
        self.watched_view: Amounts | None = None
        """int64[N, R]: what the watched gang could use when it started; None: it has not started."""
        self.snapshot = snapshot
        self.now = now
        self.free = snapshot.free.copy(order="F")
        self.usage = QueueUsage(tree_of(snapshot.queues), snapshot.usage_by_queue, snapshot.usage_by_user)
        """Usage of the running gangs and of those that this plan starts."""
        self.reserved_usage: QueueUsage | None = None
        """Usage once all leaving gangs have gone and blocked gangs have taken their claims; None: no gang waits for
        quota."""
        self.arrays = dict(snapshot.running_by_array)
        self.started: list[Start] = []
        self.obstacles: dict[str, Obstacle] = {}
        """By id of a blocked gang: its obstacle. Later gangs must not delay it."""
        self.evictions: dict[str, Eviction] = {}
        """By id of a gang: the release of other gangs for which it waits."""
        self.unevictable: dict[str, list[str]] = {}
        """By id of a blocked gang: ids of gangs that are no victims because their eviction was refused lately."""
        self.first_claims: dict[str, PendingGang] = {}
        """By queue: the first gang that has a claim on its quota."""
        self.decided: set[str] = set()
        """Ids of the gangs that start or are blocked."""
        self._largest_free: list[int] | None = None
        """By column: the largest free amount on one node."""
        self._replica_room: dict[tuple[int, int], int] = {}
        """By column and amount: how many replicas that need so much of it fit on all nodes together."""
        self.profile = ReservationProfile(snapshot, now, self.free)

    def sort_key(self, gang: PendingGang) -> SortKey:
        """Sort key of the gang under the policy."""
        return sort_key_of(gang, self.snapshot.policy)

    def find_obstacle(self, gang: PendingGang) -> Obstacle | None:
        """The obstacle that keeps the gang from being placed at all; None: it may be placed."""
        if is_gated(gang, self.arrays, self.now):
            return Obstacle.GATE
        tree = self.usage.tree
        known = queue_named(self.snapshot.queues, gang.queue)
        if known is None or gang.queue in tree.faults or not fits_empty(self.snapshot.table, gang):
            return Obstacle.NEVER
        if not self._is_limited(gang.queue) and not tree.job_limited:
            return None
        request = gang.minimum_request
        if exceeds_maximum(tree, gang.queue, request):
            return Obstacle.NEVER
        if rule := find_limit(self.usage, gang.queue, gang.user, request):
            return Obstacle.NEVER if rule.reason is Reason.EXCEEDS_MAX_QUOTA else Obstacle.LIMIT
        return Obstacle.QUOTA if self._lacks_quota(gang, request) else None

    def exceeds_every_node(self, gang: PendingGang) -> bool:
        """Whether no node has room for one replica of some role: a cheap test."""
        if self._largest_free is None:
            self._largest_free = self.free.max(axis=0, initial=0).tolist()
        largest = self._largest_free
        for demand in gang.demands:
            for column, amount in eligibility(self.snapshot.table, demand).request:
                if amount > largest[column]:
                    return True
        return False

    def try_to_start(self, gang: PendingGang) -> Obstacle | None:
        """Starts the gang, which has no other obstacle, if it fits; else returns the obstacle."""
        if self.profile.contention.is_closed_to(gang):
            return Obstacle.RESERVED
        if self.exceeds_every_node(gang) or self._lacks_room_in_total(gang):
            return Obstacle.CAPACITY
        found = self._place(gang, self.free)
        if found is None:
            return Obstacle.CAPACITY
        free = self.profile.free_for(gang)
        if free is not self.free:
            found = self._place(gang, free)
            if found is None:
                return Obstacle.RESERVED
        if gang.id == self._watched:
            self.watched_view = free.copy(order="F")
        self.start(gang, found)
        return None

    def start(self, gang: PendingGang, found: Placed) -> None:
        """Starts the gang on nodes that have room for it."""
        allocate_grant(self.snapshot.table, self.free, found.grant)
        self._largest_free = None
        self._replica_room.clear()
        self.decided.add(gang.id)
        self.profile.add_start(gang, found.grant)
        request = total_of(demands_as_placed(gang.demands, found.placement))
        self.usage.add(gang.queue, gang.user, request)
        if self.reserved_usage is not None:
            self.reserved_usage.add(gang.queue, gang.user, request)
        if gang.array_id:
            self.arrays[gang.array_id] = self.arrays.get(gang.array_id, 0) + 1
        self.started.append(Start(gang, *found))

    def block_until_released(self, found: Eviction) -> None:
        """Blocks the gang until other gangs have released its nodes, which are reserved for it."""
        self.evictions[found.gang.id] = found
        if self.reserved_usage is not None:
            _release(self.reserved_usage, found.releases)
        early = [EarlyRelease(each.run.id, found.at, each.grant) for each in found.releases]
        self.profile.reserve_for_eviction(found.gang, found.at, found.placed.grant, early)
        self.block(found.gang, Obstacle.LEAVING)

    def block(self, gang: PendingGang, obstacle: Obstacle) -> None:
        """Blocks the gang; later gangs must not delay it."""
        self.obstacles[gang.id] = obstacle
        self.decided.add(gang.id)
        if obstacle in LACKS_NODES:
            self.profile.reserve(gang)
        if obstacle not in WITHOUT_QUOTA_CLAIM and self._is_limited(gang.queue):
            if self.reserved_usage is None:
                self.reserved_usage = self.usage.copy()
                _release(
                    self.reserved_usage,
                    expected_releases(self.snapshot, self.snapshot.releasing, self.evictions.values()),
                )
            request = gang.minimum_request
            claim = claim_queue(self.usage.tree, gang.queue, request)
            self.reserved_usage.add(claim, gang.user, request)
            self.first_claims.setdefault(claim, gang)

    @cached_property
    def has_limits(self) -> bool:
        """Whether any queue is limited: then the order of the gangs that wait for quota matters."""
        tree = self.usage.tree
        return bool(tree.job_limited) or any(tree.limited_resources.values())

    @cached_property
    def shares(self) -> Shares:
        """Shares of the queues, as the plan stands."""
        return Shares(self.usage, total_capacity(self.snapshot.table), self.snapshot.past_usage)

    @property
    def fair_shares(self) -> Shares | None:
        """Shares of the queues; None if the policy's order has no fair share."""
        return self.shares if order_of(self.snapshot.policy).fair_share else None

    @property
    def priority_first(self) -> bool:
        """Whether a higher priority goes before the fair share."""
        return order_of(self.snapshot.policy).priority_first

    @cached_property
    def reserved_nodes(self) -> list[ReservedNodes]:
        """Nodes that are reserved for each blocked gang. Valid after the last gang was considered."""
        return [ReservedNodes(gang, mask) for gang, mask in self.profile.reserved_masks()]

    @cached_property
    def free_capacities(self) -> FreeCapacities:
        """Free capacity now. Valid after the last gang was considered."""
        return FreeCapacities(self.free)

    @cached_property
    def total_capacities(self) -> FreeCapacities:
        """Capacity of the empty nodes."""
        return FreeCapacities(self.snapshot.table.capacity)

    def _lacks_room_in_total(self, gang: PendingGang) -> bool:
        """Whether some role has too few places even by its scarcest resource alone: a cheap test."""
        for demand in gang.demands:
            for column, amount in eligibility(self.snapshot.table, demand).request[:1]:
                room = self._replica_room.get((column, amount))
                if room is None:
                    room = int((np.maximum(self.free[:, column], 0) // amount).sum())
                    self._replica_room[column, amount] = room
                if room < (demand.min_count or demand.count):
                    return True
        return False

    def _place(self, gang: PendingGang, room: Amounts) -> Placed | None:
        """Places an elastic gang in the largest size for which there is room and quota."""

        def attempt(demands: tuple[Demand, ...]) -> Placed | None:
            if demands is not gang.demands and self._lacks_quota(gang, total_of(demands)):
                return None
            return place(room, self.snapshot.table, demands, None, self.snapshot.policy)

        if any(demand.min_count for demand in gang.demands) and self._lacks_quota(gang, total_of(gang.demands)):
            return place_largest(gang.demands, lambda demands: None if demands is gang.demands else attempt(demands))
        return place_largest(gang.demands, attempt)

    def _lacks_quota(self, gang: PendingGang, request: Mapping[str, int]) -> bool:
        is_claimed = self.reserved_usage is not None and blocked_by_claims(self.reserved_usage, gang.queue, request)
        return bool(is_claimed or exceeds_available(self.usage, gang.queue, request))

    def _is_limited(self, queue: str) -> bool:
        return bool(self.usage.tree.limited_resources.get(queue))


def _release(usage: QueueUsage, releases: Iterable[VictimRelease]) -> None:
    for each in releases:
        usage.subtract(each.run.queue, each.run.user, each.amounts, jobs=int(each.whole))
