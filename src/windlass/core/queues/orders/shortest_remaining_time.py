"""Order `srtf`: the shortest remaining time first, preemptive."""

from __future__ import annotations

from windlass.core.model.gang import PendingGang
from windlass.core.model.policy import Policy
from windlass.core.queues.orders.order import Key, Order, walltime_of


def _by_remaining_time(gang: PendingGang, policy: Policy) -> Key:
    return (walltime_of(gang, policy) - gang.run_time,)


ORDER = Order("the shortest remaining time, preemptive", _by_remaining_time, preemptive=True)
