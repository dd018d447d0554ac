"""Order `srsf`: the least remaining GPU time first, preemptive."""

from __future__ import annotations

from windlass.core.model.gang import PendingGang
from windlass.core.model.policy import Policy
from windlass.core.queues.orders.order import Key, Order, walltime_of


def _by_remaining_service(gang: PendingGang, policy: Policy) -> Key:
    return ((walltime_of(gang, policy) - gang.run_time) * gang.milli_gpus,)


ORDER = Order("the least remaining GPU time, preemptive", _by_remaining_service, preemptive=True)
