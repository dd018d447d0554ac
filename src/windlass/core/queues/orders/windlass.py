"""Order `windlass`, the default: priority, fair share, then age less a penalty for long walltimes.

The constants and the shortest-first backfill are chosen by experiment: docs/design/scheduling.md.
"""

from __future__ import annotations

from windlass.core.model.gang import PendingGang
from windlass.core.model.policy import Policy
from windlass.core.queues.orders.order import Key, Order, by_walltime, walltime_of


def _by_penalized_age(gang: PendingGang, policy: Policy) -> Key:
    """Sorts as if a gang had arrived later by `age_penalty` hundredths of its walltime, at most `max_age_penalty`."""
    penalty = min(walltime_of(gang, policy) * policy.age_penalty // 100, policy.max_age_penalty)
    return (-gang.priority, gang.since + penalty)


ORDER = Order(
    "priority, fair share, then age less a part of the walltime; the shortest first into the gaps",
    _by_penalized_age,
    backfill_key=by_walltime,
    fair_share=True,
    priority_first=True,
)
