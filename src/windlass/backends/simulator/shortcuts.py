"""Scheduling decisions found without a full cycle, in clusters without preemption.

They equal the scheduler's decisions, which tests enforce. Most events of a trace are of this kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from windlass.core.ledger import Ledger
from windlass.core.model.gang import Demand, PendingGang
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.nodes.feasibility import eligibility
from windlass.core.placement.empty_cluster_fit import usable_nodes
from windlass.core.placement.gang_placement import Placed, place
from windlass.core.queues.orders.registry import ORDERS


class Shortcuts:
    """Shortcuts of one replay. It is given every gang that waits; `apply` tells whether shortcuts are valid at all."""

    def __init__(self, ledger: Ledger, policy: Policy, queues: Iterable[Queue], gangs: Iterable[PendingGang]) -> None:
        self._ledger, self._policy = ledger, policy
        self._requests: Counter[int] = Counter()
        """Number of waiting gangs by identity of their demands: equal requests share one object."""
        self._demands: dict[int, tuple[Demand, ...]] = {}
        without_preemption = not policy.preempt or len({gang.priority for gang in gangs}) <= 1
        self._strict = policy.order == "fifo" and policy.reservations == 0
        self.apply = without_preemption and not ORDERS[policy.order].preemptive and not any(map(_is_limited, queues))

    def waits(self, gang: PendingGang) -> None:
        """Adds a gang that waits from now on."""
        key = id(gang.demands)
        self._demands[key] = gang.demands
        self._requests[key] += 1

    def starts(self, gang: PendingGang) -> None:
        """Removes a gang that no longer waits."""
        key = id(gang.demands)
        self._requests[key] -= 1
        if not self._requests[key]:
            del self._requests[key]

    def is_blocked(self, first: PendingGang, arrived: Iterable[PendingGang]) -> bool:
        """Tells whether new gangs cannot start: in strict arrival order none passes the first on nodes it could use.

        Valid only while nothing was released since the scheduler left the first gang waiting.
        """
        if not self._strict:
            return False
        table = self._ledger.table
        usable = usable_nodes(table, first.demands)
        return not any((usable_nodes(table, gang.demands) > usable).any() for gang in arrived)

    def blocks_all(self, first: PendingGang) -> bool:
        """Tells whether the order is strict and the first waiting gang could use every node."""
        return self._strict and bool(usable_nodes(self._ledger.table, first.demands).all())

    def has_no_fit(self) -> bool:
        """Tells whether every waiting gang has a replica that fits on no node, so that none starts."""
        most = self._ledger.free.max(axis=0).tolist()
        return all(self._is_too_large(self._demands[key], most) for key in self._requests)

    def alone(self, gang: PendingGang) -> Placed | None:
        """Returns the placement of a gang that has no competitor. None: it has to wait."""
        return place(self._ledger.free, self._ledger.table, gang.demands, None, self._policy)

    def _is_too_large(self, demands: tuple[Demand, ...], most: list[int]) -> bool:
        table = self._ledger.table
        return any(amount > most[column] for d in demands for column, amount in eligibility(table, d).request)


def _is_limited(queue: Queue) -> bool:
    return bool(
        queue.nominal or queue.parent or queue.half_life or queue.max_running or queue.user_running or queue.user_limits
    )
