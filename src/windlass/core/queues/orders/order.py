"""The interface of a queue order: a static sort key for waiting gangs, and the properties that the scheduler needs.

A key is static, so that waiting gangs stay sorted and no gang moves while it waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from windlass.core.model.gang import PendingGang, RunningGang
from windlass.core.model.policy import Policy

Key: TypeAlias = tuple[int, ...]
KeyFunction: TypeAlias = Callable[[PendingGang, Policy], Key]


@dataclass(frozen=True, slots=True)
class Order:
    """One order of waiting gangs."""

    description: str
    """One phrase for help texts."""
    key: KeyFunction
    """The smaller key goes first."""
    backfill_key: KeyFunction | None = None
    """The key by which gangs are tried once all reservations are made; None: the same."""
    fair_share: bool = False
    """The order is fair: between queues the weighted dominant share decides before the key."""
    priority_first: bool = False
    """A higher priority decides before the share, in whatever queue the gang is."""
    uses_priority: bool = True
    """Priorities count at all: without them no gang is preempted by priority."""
    preemptive: bool = False
    """At every change all gangs, running or not, are sorted and placed again."""
    next_change: Callable[[RunningGang, Policy, int], int | None] | None = None
    """Time in ms after `now` at which a running gang's key changes by time alone; None: its key never does."""

    @property
    def ranks_between_queues(self) -> bool:
        """Tells whether a higher priority wins against a gang of another queue."""
        return self.uses_priority and (self.priority_first or not self.fair_share)


def walltime_of(gang: PendingGang, policy: Policy) -> int:
    """Returns the gang's walltime in ms, or the policy's assumption for gangs without one."""
    return policy.assumed_walltime if gang.walltime is None else gang.walltime


def by_priority(gang: PendingGang, _policy: Policy) -> Key:
    """Sorts by priority alone."""
    return (-gang.priority,)


def by_walltime(gang: PendingGang, policy: Policy) -> Key:
    """Sorts by priority, then by the shortest walltime."""
    return (-gang.priority, walltime_of(gang, policy))
