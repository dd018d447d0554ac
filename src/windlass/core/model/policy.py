"""The scheduling settings of a cluster. Orders and scores are named here and implemented in their own packages."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.core.model.gang import Demand

_HOUR = 3_600_000
_DAY = 24 * _HOUR
MAX_GRACE_MS = 600_000
"""Default of `Policy.max_grace`."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Scheduling policy of a cluster. Times in ms."""

    order: str = "windlass"
    """Name of the queue order (`core.queues.orders.registry`)."""
    reservations: int = 1
    """Number of blocked gangs with a reservation that later gangs may not delay. 1 is EASY backfill; -1: every blocked
    gang, conservative backfill; 0: no gang passes a blocked one on nodes that it could use, however short it is."""
    starvation_guard: int = 2 * _HOUR
    """Aging limit: once a gang with a reservation has waited this long, a tenth of the nodes (those that are empty
    soonest) is closed to later gangs that run longer than two hours (`core.reservations.starvation_guard`). 0: off, as
    under every policy for which `can_guard_against_starvation` is false.
    """
    preempt: bool = True
    """Permits preemption: by priority, and to reclaim quota that other queues borrow."""
    min_runtime: int = 300_000
    """Time that a gang runs before it may be preempted."""
    max_grace: int = MAX_GRACE_MS
    """Most time that a job of a cluster of many users has to end, whatever grace it asks for: until then it holds its
    nodes, and quota that another queue has lent."""
    resize_interval: int = 300_000
    """Shortest time between an elastic gang's start or last resize and its growth."""
    assumed_walltime: int = _DAY
    """Walltime that orders assume for gangs without one."""
    age_penalty: int = 20
    """Order `windlass`: a gang sorts as if it had arrived later by this many hundredths of its walltime …"""
    max_age_penalty: int = 4 * _HOUR
    """… but by no more than this, which bounds every gang's delay, so that no gang starves."""
    scoring: str = "tightest"
    """Name of the node score (`core.placement.scores.registry`)."""
    typical_demands: tuple[tuple[Demand, int], ...] = ()
    """Demands and their weights, which scores of future fragmentation assume. Empty: the demands that a ledger has
    counted.
    """
    service_limits: tuple[int, ...] = (3_250_000, 7_200_000)
    """Order `las`: GPU-ms of attained service at which a gang falls into the next level."""
