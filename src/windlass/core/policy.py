"""Which gang is asked first: a table of small named orders, and the settings that go with them.

An order gives every waiting gang a static key; the smaller goes first. Static, so that what waits stays sorted and
nobody's place changes behind his back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from windlass.core.gang import Pending, Turn

Key: TypeAlias = tuple[int, ...]

_DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class Policy:
    """How a cluster schedules. Times in ms."""

    order: str = "windlass"
    """One of ORDERS."""
    reservations: int = 1
    """How many blocked gangs hold a reservation that others may not delay: 1 is EASY. -1: all of them, conservative."""
    preempt: bool = True
    """Whether gangs may be stopped for others at all: by priority, and to give a queue its own back."""
    min_runtime: int = 300_000
    """Nobody is stopped for another one before it has run so long."""
    assumed_walltime: int = _DAY
    """What an order takes for the walltime of gangs that have none."""
    ageing: int = 10
    """By how many times its walltime a gang lets younger and shorter ones pass (order `windlass`)."""
    scoring: str = "tightest"
    """How nodes are chosen among those that do: one of core.placement's scores."""
    service_limits: tuple[int, ...] = (3_250_000, 7_200_000)
    """GPU-ms of service at which a gang falls into the next queue of order `las` (Tiresias-L)."""


@dataclass(frozen=True, slots=True)
class Order:
    """`key`: the smaller goes first. `fair`: between queues the fair share decides before the key does.

    `refill`: at every change everything, running or not, is sorted and placed anew from an empty cluster.
    """

    about: str
    key: Callable[[Pending, Policy], Key]
    fair: bool = False
    refill: bool = False


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
    service = gang.served * gang.milli_gpus
    return (sum(service >= limit * 1000 for limit in policy.service_limits),)


def _windlass(gang: Pending, policy: Policy) -> Key:
    return (-gang.priority, gang.since + policy.ageing * _walltime(gang, policy))


def _walltime(gang: Pending, policy: Policy) -> int:
    return policy.assumed_walltime if gang.walltime is None else gang.walltime


ORDERS: Mapping[str, Order] = MappingProxyType(
    {
        "fifo": Order("first come, first served", _fifo),
        "priority": Order("priority, then age", _priority),
        "sjf": Order("priority, then the shortest walltime", _sjf),
        "srtf": Order("the shortest remaining time, preemptive", _srtf, refill=True),
        "srsf": Order("the least remaining GPU time, preemptive", _srsf, refill=True),
        "las": Order("the least attained GPU time in steps, preemptive (Tiresias-L)", _las, refill=True),
        "fair": Order("fair share, then priority and age", _priority, fair=True),
        "windlass": Order("priority, fair share, then age less a multiple of the walltime", _windlass, fair=True),
    }
)


def turn_of(gang: Pending, policy: Policy) -> Turn:
    """Sorts gangs: the order's key, then age, then the order of submission, then an array's index.

    The members of an array share a number, and of their ids (sweep-7_2, sweep-7_10) the shorter has the lower index.
    """
    key = ORDERS[policy.order].key(gang, policy)
    return key, gang.since, gang.number, gang.array_id or gang.id, len(gang.id), gang.id
