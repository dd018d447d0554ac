"""Orders and policies by name, and the sort keys of gangs under a policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from windlass.core.model.gang import PendingGang, SortKey
from windlass.core.model.policy import Policy
from windlass.core.queues.orders import (
    fair_share,
    fifo,
    least_attained_service,
    least_remaining_service,
    priority,
    shortest_job,
    shortest_remaining_time,
    windlass,
)
from windlass.core.queues.orders.order import Key, Order

ORDERS: Mapping[str, Order] = MappingProxyType(
    {
        "fifo": fifo.ORDER,
        "priority": priority.ORDER,
        "sjf": shortest_job.ORDER,
        "srtf": shortest_remaining_time.ORDER,
        "srsf": least_remaining_service.ORDER,
        "las": least_attained_service.ORDER,
        "fair": fair_share.ORDER,
        "windlass": windlass.ORDER,
    }
)


def order_of(policy: Policy) -> Order:
    """Returns the order that the policy names."""
    return ORDERS[policy.order]


def has_backfill_order(policy: Policy) -> bool:
    """Tells whether gaps between reservations are filled in another order than the queue order."""
    return order_of(policy).backfill_key is not None


def can_guard_against_starvation(policy: Policy) -> bool:
    """Tells whether `starvation_guard` can have any effect: with reservations, and with a separate backfill order."""
    return policy.reservations != 0 and has_backfill_order(policy)


def without_idle_guard(policy: Policy) -> Policy:
    """Returns the policy with `starvation_guard` 0 if it has no effect, so that listings show effective values."""
    if can_guard_against_starvation(policy) or not policy.starvation_guard:
        return policy
    return replace(policy, starvation_guard=0)


_NAMED = {name: Policy(name, reservations=0 if name == "fifo" else 1) for name in ORDERS}
_NAMED |= {"easy": Policy("fifo"), "conservative": Policy("fifo", reservations=-1)}
POLICIES: Mapping[str, Policy] = MappingProxyType({name: without_idle_guard(policy) for name, policy in _NAMED.items()})
"""Policies that `windlass simulate --policy` knows by name."""


def sort_key_of(gang: PendingGang, policy: Policy) -> SortKey:
    """Returns the sort key of a waiting gang: the order's key, then age, order of submission, and array index.

    Members of an array share a number; of their ids (sweep-7_2, sweep-7_10) the shorter has the lower index.
    """
    return _sort_key(order_of(policy).key(gang, policy), gang)


def backfill_sort_key_of(gang: PendingGang, policy: Policy) -> SortKey:
    """Returns the sort key of a waiting gang for backfilling, which comes after all reservations are made."""
    order = order_of(policy)
    return _sort_key((order.backfill_key or order.key)(gang, policy), gang)


def _sort_key(key: Key, gang: PendingGang) -> SortKey:
    return key, gang.since, gang.number, gang.array_id or gang.id, len(gang.id), gang.id
