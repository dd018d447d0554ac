"""Order `las`: the least attained GPU time first, in discretized levels, preemptive.

Source: Tiresias (NSDI'19), Tiresias-L, and the order in which its published simulator keeps its queues.
"""

from __future__ import annotations

from windlass.core.model.gang import PendingGang, RunningGang, milli_gpus_of
from windlass.core.model.policy import Policy
from windlass.core.queues.orders.order import Key, Order

_NEW_WITHIN_MS = 1_000
"""A gang counts as new in a level until each of its GPUs has served this long in it."""


def level_of(service: int, policy: Policy) -> int:
    """Returns the number, from 0, of the level of a gang that has attained this service, in milli-GPU-ms."""
    return sum(service >= limit * 1000 for limit in policy.service_limits)


def _by_attained_service(gang: PendingGang, policy: Policy) -> Key:
    """Sorts by level; within a level, gangs that have been served in it go before those that have just entered it.

    Of the former, the one that was stopped last goes first. New gangs and those from the level above are at its end.
    """
    level = level_of(gang.service, policy)
    before = policy.service_limits[level - 1] * 1000 if level else 0
    is_new = gang.service - before <= _NEW_WITHIN_MS * gang.milli_gpus
    return (level, is_new, 0 if is_new else -gang.stopped_at)


def _next_level_at(run: RunningGang, policy: Policy, now: int) -> int | None:
    """Returns the time in ms at which a running gang's attained service reaches the next level."""
    held, level = milli_gpus_of(run.demands), level_of(run.service_at(now), policy)
    if level == len(policy.service_limits) or not held:
        return None
    missing = policy.service_limits[level] * 1000 - run.service_at(now)
    return now - (-missing // held)


ORDER = Order(
    "the least attained GPU time in steps, preemptive (Tiresias-L)",
    _by_attained_service,
    preemptive=True,
    next_change=_next_level_at,
)
