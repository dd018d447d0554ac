"""The state of one scheduling cycle: what it has given away so far, and what it keeps for blocked gangs."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from windlass.core.cycle.quota_claims import QuotaClaims
from windlass.core.model.gang import (
    ClassKey,
    Demand,
    PendingGang,
    SortKey,
    demands_as_placed,
    is_placed_elsewhere,
    total_of,
)
from windlass.core.model.obstacle import LACKS_NODES, WITHOUT_QUOTA_CLAIM, Obstacle
from windlass.core.model.reasons import Reason
from windlass.core.model.snapshot import Amounts, Grant, Snapshot
from windlass.core.model.status import Placement
from windlass.core.nodes.allocation import allocate_grant
from windlass.core.nodes.free_capacity import FreeCapacities
from windlass.core.nodes.node_filters import Mask
from windlass.core.nodes.room_bounds import RoomBounds
from windlass.core.placement.elastic_resizing import place_largest
from windlass.core.placement.empty_cluster_fit import fits_empty
from windlass.core.placement.gang_placement import Placed, place
from windlass.core.queues.admission_gates import is_gated
from windlass.core.queues.fair_share import Shares, total_capacity
from windlass.core.queues.limits import find_limit
from windlass.core.queues.orders.registry import order_of, sort_key_of
from windlass.core.queues.queue_tree import tree_of
from windlass.core.queues.quota import exceeds_maximum, queue_named
from windlass.core.queues.usage import QueueUsage
from windlass.core.reservations.release_forecast import EarlyRelease
from windlass.core.reservations.reservation_profile import ReservationProfile

if TYPE_CHECKING:
    from windlass.core.preemption.victim_search import Eviction


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
        self.arrays = dict(snapshot.running_by_array)
        self.started: list[Start] = []
        self.obstacles: dict[str, Obstacle] = {}
        """By id of a blocked gang: its obstacle. Later gangs must not delay it."""
        self.evictions: dict[str, Eviction] = {}
        """By id of a gang: the release of other gangs for which it waits."""
        self.unevictable: dict[str, list[str]] = {}
        """By id of a blocked gang: ids of gangs that are no victims because their eviction was refused lately."""
        self.untried: set[ClassKey] = set()
        """Classes that were not tried for the gaps, because attempts for others of their queue or user had failed."""
        self.unsearched: set[str] = set()
        """Gangs for which no victims were searched, for the same reason."""
        self.decided: set[str] = set()
        """Ids of the gangs that start or are blocked."""
        self.claims = QuotaClaims(snapshot, self.usage, self.evictions)
        self.room_bounds = RoomBounds(snapshot.table, self.free)
        self.profile = ReservationProfile(snapshot, now, self.free)

    def sort_key(self, gang: PendingGang) -> SortKey:
        """Sort key of the gang under the policy."""
        return sort_key_of(gang, self.snapshot.policy)

    def is_gated(self, gang: PendingGang) -> bool:
        """Tells whether an admission gate is closed to the gang, after the starts so far."""
        return is_gated(gang, self.arrays, self.snapshot.uncounted_exclusives, self.now)

    def find_obstacle(self, gang: PendingGang) -> Obstacle | None:
        """The obstacle that keeps the gang from being placed at all; None: it may be placed."""
        if self.is_gated(gang):
            return Obstacle.GATE
        tree = self.usage.tree
        known = queue_named(self.snapshot.queues, gang.queue)
        if known is None or gang.queue in tree.faults or not fits_empty(self.snapshot.table, gang):
            return Obstacle.NEVER
        if not self.claims.is_limited(gang.queue) and not tree.job_limited:
            return None
        request = gang.minimum_request
        if exceeds_maximum(tree, gang.queue, request, may_borrow=gang.preemptible):
            return Obstacle.NEVER
        if rule := find_limit(self.usage, gang.queue, gang.user, request):
            return Obstacle.NEVER if rule.reason is Reason.EXCEEDS_MAX_QUOTA else Obstacle.LIMIT
        return Obstacle.QUOTA if self.claims.lacks_quota(gang, request) else None

    def try_to_start(self, gang: PendingGang) -> Obstacle | None:
        """Starts the gang, which has no other obstacle, if it fits; else returns the obstacle."""
        if is_placed_elsewhere(gang.demands):
            self._start_elsewhere(gang)
            return None
        if self.profile.contention.is_closed_to(gang):
            return Obstacle.RESERVED
        if self.room_bounds.exceeds_every_node(gang) or self.room_bounds.exceeds_total(gang):
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

    def _start_elsewhere(self, gang: PendingGang) -> None:
        """Starts a gang that another scheduler places: it takes no node from any reservation."""
        found = self._place(gang, self.free)
        assert found is not None  # noqa: S101 - quota is its only obstacle, and that was looked at
        self.start(gang, found)

    def start(self, gang: PendingGang, found: Placed) -> None:
        """Starts the gang on nodes that have room for it."""
        allocate_grant(self.snapshot.table, self.free, found.grant)
        self.room_bounds.clear()
        self.decided.add(gang.id)
        self.profile.add_start(gang, found.grant)
        self.claims.add_start(gang, total_of(demands_as_placed(gang.demands, found.placement)))
        if gang.array_id:
            self.arrays[gang.array_id] = self.arrays.get(gang.array_id, 0) + 1
        self.started.append(Start(gang, *found))

    def block_until_released(self, found: Eviction) -> None:
        """Blocks the gang until other gangs have released its nodes, which are reserved for it."""
        self.evictions[found.gang.id] = found
        self.claims.release(found.releases)
        early = [EarlyRelease(each.run.id, found.at, each.grant) for each in found.releases]
        self.profile.reserve_for_eviction(found.gang, found.at, found.placed.grant, early)
        self.block(found.gang, Obstacle.LEAVING)

    def block(self, gang: PendingGang, obstacle: Obstacle) -> None:
        """Blocks the gang; later gangs must not delay it."""
        self.obstacles[gang.id] = obstacle
        self.decided.add(gang.id)
        if obstacle in LACKS_NODES:
            self.profile.reserve(gang)
        if obstacle not in WITHOUT_QUOTA_CLAIM and self.claims.is_limited(gang.queue):
            self.claims.claim(gang)

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

    def _place(self, gang: PendingGang, room: Amounts) -> Placed | None:
        """Places an elastic gang in the largest size for which there is room and quota."""

        def attempt(demands: tuple[Demand, ...]) -> Placed | None:
            if demands is not gang.demands and self.claims.lacks_quota(gang, total_of(demands)):
                return None
            return place(room, self.snapshot.table, demands, None, self.snapshot.policy)

        if any(demand.min_count for demand in gang.demands) and self.claims.lacks_quota(gang, total_of(gang.demands)):
            return place_largest(gang.demands, lambda demands: None if demands is gang.demands else attempt(demands))
        return place_largest(gang.demands, attempt)
