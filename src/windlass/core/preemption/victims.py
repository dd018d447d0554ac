"""Candidates for preemption: the gangs that may be stopped or shrunk for another, and their order by cost.

By priority: gangs of lower priority in the same queue tree, but not what another queue holds within its own quota.
By reclaim: gangs of queues above their own quota, for a queue below it (`fair_share.can_reclaim`).
Across queues, priority counts only if `order.ranks_between_queues`, and reclaim only if `order.fair_share`. A victim
must not be ahead of the preemptor in the queue order.
Never: gangs that are not preemptible, are already being stopped or resized, have run for less than the minimum, or
whose eviction was refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from windlass.core.model.gang import PendingGang, RunningGang, milli_gpus_of
from windlass.core.model.snapshot import Snapshot
from windlass.core.nodes.node_filters import Mask
from windlass.core.placement.elastic_resizing import surplus_replicas
from windlass.core.preemption.candidate_arrays import CandidateArrays
from windlass.core.queues.fair_share import MILLIONTHS, Shares, can_reclaim, total_capacity
from windlass.core.queues.orders.order import Order
from windlass.core.queues.orders.registry import order_of
from windlass.core.queues.queue_tree import Amounts, charge
from windlass.core.queues.usage import QueueUsage

LOWER_PRIORITY = "it has a lower priority"
BORROWED = "its queue has borrowed what queue"


class Cost(NamedTuple):
    """The cost of stopping a gang; the smallest goes first."""

    priority: int
    negated_borrowing: int
    """Millionths of the cluster, negative: the queue that has borrowed most goes first."""
    lost_runtime: int
    """Run time since the gang last saved its work or, if unknown, since it started, in ms."""
    milli_gpus: int
    member_count: int
    negated_admitted_at: int
    """The gang that was admitted last goes first."""
    job_id: str


@dataclass(frozen=True, slots=True, eq=False)
class PreemptionRequest:
    """A gang that needs room, and the request that its queue is charged for."""

    gang: PendingGang
    amounts: Mapping[str, int]
    order: Order


class VictimCandidates:
    """All running gangs of one snapshot as candidates for preemption."""

    def __init__(self, snapshot: Snapshot, now: int, usage: QueueUsage) -> None:
        self._snapshot = snapshot
        self._now = now
        self._usage = usage
        self._ranks = _VictimRanks(snapshot, usage)
        self.releasing = snapshot.releasing
        self._has_victims: dict[tuple[str, int], bool] = {}

    @cached_property
    def by_cost(self) -> Sequence[RunningGang]:
        """Candidates that have run for the minimum time, cheapest first."""
        return sorted((run for run in self._stoppable if run.last_changed_at <= self._latest), key=self._cost)

    def may_have_victims(self, gang: PendingGang) -> bool:
        """Tells whether any gang might have to make room: a quick test by queue and priority."""
        key = gang.queue, gang.priority
        if key not in self._has_victims:
            self._has_victims[key] = any(
                self._ranks.may_give(level, gang) for level in self._snapshot.running_by_priority
            ) or any(
                run.queue == gang.queue and surplus_replicas(run) for run in self._snapshot.elastic_or_stopping.values()
            )
        return self._has_victims[key]

    def select(self, request: PreemptionRequest, mask: Mask | None) -> Sequence[RunningGang]:
        """Returns gangs that may be stopped or shrunk with queues as they are now, cheapest first.

        `mask` (bool[N]): only gangs that hold something on these nodes; None: any gang.
        """
        if not self.by_cost:
            return ()
        keep = self._arrays.possible_victims(request.gang, self._ranks.root)
        if mask is not None:
            keep &= self._arrays.holders(mask)
        return [self.by_cost[number] for number in np.flatnonzero(keep).tolist()]

    def next_preemptible_at(self, gang: PendingGang) -> int | None:
        """Returns the time in ms at which the next gang that is too young now may be stopped for this one."""
        young = [run for run in self._stoppable if run.last_changed_at > self._latest]
        soon = [
            run.last_changed_at
            for run in young
            if self._ranks.may_give((run.queue, run.priority), gang)
            or (run.queue == gang.queue and surplus_replicas(run))
        ]
        return min(soon) + self._snapshot.policy.min_runtime if soon else None

    @cached_property
    def latest_release(self) -> int:
        """Returns the time in ms at which every gang that is being stopped, or could be, has ended."""
        return max((run.release_time(self._now) for run in (*self.releasing, *self._stoppable)), default=self._now)

    @property
    def _latest(self) -> int:
        return self._now - self._snapshot.policy.min_runtime

    @cached_property
    def _stoppable(self) -> list[RunningGang]:
        running = self._snapshot.running.values()
        free = [run for run in running if run.preemptible and not run.stopping and run.resize_to is None]
        return [run for run in free if not run.is_unevictable(self._now)]

    def unevictable(self, gang: PendingGang) -> list[RunningGang]:
        """Gangs that only a refused eviction keeps from being candidates, as far as queues and priorities tell."""
        running = self._snapshot.running.values()
        refused = [run for run in running if run.is_unevictable(self._now) and run.preemptible and not run.stopping]
        return [run for run in refused if self._ranks.may_give((run.queue, run.priority), gang)]

    @cached_property
    def _arrays(self) -> CandidateArrays:
        return CandidateArrays(self.by_cost, self._snapshot.grants)

    @cached_property
    def _borrowed(self) -> Mapping[str, int]:
        """Returns, by queue, the largest borrowed part of any resource in millionths of the cluster."""
        capacity = total_capacity(self._snapshot.table)
        return {queue: _borrowed(self._usage, capacity, queue) for queue in self._usage.tree.queues}

    def _cost(self, run: RunningGang) -> Cost:
        lost = self._now - max(run.admitted_at, run.saved_at or 0)
        demands = run.demands
        members = demands[0].count if len(demands) == 1 else sum(demand.count for demand in demands)
        borrowed = self._borrowed.get(run.queue, 0)
        return Cost(run.priority, -borrowed, lost, milli_gpus_of(demands), members, -run.admitted_at, run.id)


class _VictimRanks:
    """Rights to preempt by queue and priority alone, whatever the queues hold exactly."""

    def __init__(self, snapshot: Snapshot, usage: QueueUsage) -> None:
        self._order = order_of(snapshot.policy)
        self._usage = usage

    def may_give(self, rank: tuple[str, int], gang: PendingGang) -> bool:
        """Tells whether a gang of this queue and priority could be stopped for that one."""
        queue, priority = rank
        if self.root(queue) != self.root(gang.queue):
            return False
        order = self._order
        lower = priority < gang.priority and order.uses_priority and (queue == gang.queue or order.ranks_between_queues)
        return lower or (order.fair_share and queue != gang.queue and self._may_have_borrowed(queue))

    def root(self, queue: str) -> str:
        """Returns the root of a queue's tree."""
        return self._usage.tree.path.get(queue, (queue,))[-1]

    def _may_have_borrowed(self, queue: str) -> bool:
        tree = self._usage.tree
        quota, drawn = tree.quota.get(queue, {}), self._usage.charged(queue)
        limited = tree.limited_resources.get(queue, ())
        return queue in tree.children or any(drawn.get(name, 0) > quota.get(name, 0) for name in limited)


def reason_to_stop(shares: Shares, request: PreemptionRequest, victim: RunningGang, holds: Amounts) -> str:
    """Returns the reason for which a gang with these holdings may be stopped; "" if it may not.

    `shares` include the victim, and not the victims chosen before it.
    """
    gang = request.gang
    if victim.queue == gang.queue:
        return LOWER_PRIORITY if request.order.uses_priority and victim.priority < gang.priority else ""
    if request.order.fair_share and can_reclaim(shares, gang.queue, victim.queue, request.amounts, holds):
        return f"{BORROWED} {gang.queue} asks for"
    if (
        request.order.ranks_between_queues
        and victim.priority < gang.priority
        and not _is_within_quota(shares, request, victim.queue, holds)
    ):
        return LOWER_PRIORITY
    return ""


def reason_to_shrink(shares: Shares, request: PreemptionRequest, victim: RunningGang, holds: Amounts) -> str:
    """Returns the reason for which an elastic gang may be shrunk: also with equal priority in the same queue."""
    if victim.queue == request.gang.queue and victim.priority == request.gang.priority:
        return "others of its queue wait"
    return reason_to_stop(shares, request, victim, holds)


def _is_within_quota(shares: Shares, request: PreemptionRequest, queue: str, holds: Amounts) -> bool:
    """Tells whether the queue's usage of the requested resources is within its own quota or that of a queue above it.

    For a resource without quota in any queue below the common ancestor, no queue has a part of its own.
    """
    tree = shares.tree
    mine, theirs = tree.path.get(request.gang.queue, ()), tree.path.get(queue, ())
    meeting = next((level for level in theirs if level in mine), "")
    if not meeting:
        return True
    branch = theirs[: theirs.index(meeting)]
    disputed = [
        name
        for name in tree.contested_resources.get(meeting, ())
        if charge(request.amounts, name) > 0 and charge(holds, name) > 0
    ]
    return any(not _has_borrowed(shares, branch, meeting, name) for name in disputed)


def _has_borrowed(shares: Shares, branch: Sequence[str], meeting: str, resource: str) -> bool:
    if not branch:
        return shares.is_own_borrowing(meeting, resource)
    return all(shares.is_borrowing(level, resource) for level in branch)


def _borrowed(usage: QueueUsage, capacity: Amounts, queue: str) -> int:
    return max(_borrowed_parts(usage, capacity, queue), default=0)


def _borrowed_parts(usage: QueueUsage, capacity: Amounts, queue: str) -> Iterator[int]:
    drawn = usage.charged(queue)
    for resource, quota in usage.tree.quota.get(queue, {}).items():
        if capacity.get(resource, 0) > 0:
            yield max(drawn.get(resource, 0) - quota, 0) * MILLIONTHS // capacity[resource]
