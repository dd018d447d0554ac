"""Which gang is asked first: a table of small named orders, and the settings that go with them.

An order gives every waiting gang a static key; the smaller goes first. Static, so that what waits stays sorted and
nobody's place changes behind his back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

from windlass.core.model.gang import Demand, Pending, Turn

Key: TypeAlias = tuple[int, ...]

_A_SECOND = 1_000
_HOUR = 3_600_000
_DAY = 24 * _HOUR


@dataclass(frozen=True, slots=True)
class Policy:
    """How a cluster schedules. Times in ms."""

    order: str = "windlass"
    """One of ORDERS."""
    reservations: int = 1
    """How many blocked gangs hold a reservation that others may not delay: 1 is EASY. -1: all of them, conservative.
    0: nobody passes a blocked gang on nodes that it could use, however short."""
    patience: int = 2 * _HOUR
    """Once a gang with a reservation has waited so long, a tenth of the nodes, those that are empty soonest, is kept
    from gangs behind it that last longer than two hours (`core.reservations.starvation_guard`). 0: never, and so it
    is wherever nobody heeds
    it (`heeds_patience`)."""
    preempt: bool = True
    """Whether gangs may be stopped for others at all: by priority, and to give a queue its own back."""
    min_runtime: int = 300_000
    """Nobody is stopped for another one before it has run so long."""
    resize_interval: int = 300_000
    """An elastic gang grows no sooner than this after it has started or changed its size."""
    assumed_walltime: int = _DAY
    """What an order takes for the walltime of gangs that have none."""
    courtesy: int = 20
    """A gang lets those pass that came up to so many hundredths of its walltime later (order `windlass`) …"""
    longest_courtesy: int = 4 * _HOUR
    """… but none that came later than this. It bounds what the order can cost anyone, so nobody starves."""
    scoring: str = "tightest"
    """How nodes are chosen among those that do: one of core.placement.node_scores's."""
    typical: tuple[tuple[Demand, int], ...] = ()
    """What is asked for, and how often: scores that look ahead judge nodes by it. Empty: what a ledger has counted."""
    service_limits: tuple[int, ...] = (3_250_000, 7_200_000)
    """GPU-ms of service at which a gang falls into the next queue of order `las` (Tiresias-L)."""


@dataclass(frozen=True, slots=True)
class Order:
    """`key`: the smaller goes first. `fair`: between queues the fair share decides before the key does.

    `classes`: and before the share a higher priority, in whatever queue it is.
    `backfill`: the key by which gangs are tried once all reservations are made; None: the same.
    `refill`: at every change everything, running or not, is sorted and placed anew from an empty cluster.
    """

    about: str
    key: Callable[[Pending, Policy], Key]
    backfill: Callable[[Pending, Policy], Key] | None = None
    fair: bool = False
    classes: bool = False
    refill: bool = False
    ranks: bool = True
    """Whether it knows priorities at all."""


def _fifo(_gang: Pending, _policy: Policy) -> Key:
    return ()


def _priority(gang: Pending, _policy: Policy) -> Key:
    return (-gang.priority,)


def _sjf(gang: Pending, policy: Policy) -> Key:
    return (-gang.priority, _walltime(gang, policy))


def _srtf(gang: Pending, policy: Policy) -> Key:
    return (_walltime(gang, policy) - gang.served,)


def _srsf(gang: Pending, policy: Policy) -> Key:
    return ((_walltime(gang, policy) - gang.served) * gang.milli_gpus,)


def _las(gang: Pending, policy: Policy) -> Key:
    """In one of Tiresias-L's queues: who is not through with his turn in it, the one that was stopped last first.

    Those that have just come into it, new or from the queue above, are at its end. Source: Tiresias (NSDI'19), and the
    order in which its published simulator keeps its queues.
    """
    service = gang.served * gang.milli_gpus
    level = service_level(service, policy)
    before = policy.service_limits[level - 1] * 1000 if level else 0
    has_come = service - before <= _A_SECOND * gang.milli_gpus
    return (level, has_come, 0 if has_come else -gang.stopped_at)


def service_level(service: int, policy: Policy) -> int:
    """In which of the queues of order `las`, from 0, a gang is that has had so much service, in milli-GPU-ms."""
    return sum(service >= limit * 1000 for limit in policy.service_limits)


def _windlass(gang: Pending, policy: Policy) -> Key:
    """Age, but a gang counts as if it had come later by a part of what it asks for.

    The constants and the shortest-first backfill are chosen by experiment: docs/design/scheduling.md.
    """
    courtesy = min(_walltime(gang, policy) * policy.courtesy // 100, policy.longest_courtesy)
    return (-gang.priority, gang.since + courtesy)


def _walltime(gang: Pending, policy: Policy) -> int:
    return policy.assumed_walltime if gang.walltime is None else gang.walltime


ORDERS: Mapping[str, Order] = MappingProxyType(
    {
        "fifo": Order("first come, first served", _fifo, ranks=False),
        "priority": Order("priority, then age", _priority),
        "sjf": Order("priority, then the shortest walltime", _sjf),
        "srtf": Order("the shortest remaining time, preemptive", _srtf, refill=True),
        "srsf": Order("the least remaining GPU time, preemptive", _srsf, refill=True),
        "las": Order("the least attained GPU time in steps, preemptive (Tiresias-L)", _las, refill=True),
        "fair": Order("fair share, then priority and age", _priority, fair=True),
        "windlass": Order(
            "priority, fair share, then age less a part of the walltime; the shortest first into the gaps",
            _windlass,
            backfill=_sjf,
            fair=True,
            classes=True,
        ),
    }
)


def heeds_patience(policy: Policy) -> bool:
    """Whether its patience can have any effect: it has reservations, and an order of their own for those in between."""
    return policy.reservations != 0 and fills_by_another_order(policy)


def without_idle_patience(policy: Policy) -> Policy:
    """The policy, with a patience of 0 if it is one that heeds none: what is shown of it is what holds."""
    return policy if heeds_patience(policy) or not policy.patience else replace(policy, patience=0)


def fills_by_another_order(policy: Policy) -> bool:
    """Whether gaps are filled by another order than that of turns."""
    return ORDERS[policy.order].backfill is not None


_NAMED = {name: Policy(name, reservations=0 if name == "fifo" else 1) for name in ORDERS}
_NAMED |= {"easy": Policy("fifo"), "conservative": Policy("fifo", reservations=-1)}
POLICIES: Mapping[str, Policy] = MappingProxyType(
    {name: without_idle_patience(policy) for name, policy in _NAMED.items()}
)
"""What `windlass simulate --policy` knows by name."""


def turn_of(gang: Pending, policy: Policy) -> Turn:
    """Sorts gangs: the order's key, then age, then the order of submission, then an array's index.

    The members of an array share a number, and of their ids (sweep-7_2, sweep-7_10) the shorter has the lower index.
    """
    return _turn(ORDERS[policy.order].key(gang, policy), gang)


def backfill_turn_of(gang: Pending, policy: Policy) -> Turn:
    """Sorts gangs once all reservations are made: who is tried first for the gaps."""
    order = ORDERS[policy.order]
    return _turn((order.backfill or order.key)(gang, policy), gang)


def _turn(key: Key, gang: Pending) -> Turn:
    return key, gang.since, gang.number, gang.array_id or gang.id, len(gang.id), gang.id
