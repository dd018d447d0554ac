"""The reservation of one blocked gang."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.core.model.gang import PendingGang
from windlass.core.model.snapshot import Amounts, Grant
from windlass.core.nodes.node_filters import Mask
from windlass.core.reservations.release_forecast import NEVER


@dataclass(frozen=True, slots=True, eq=False)
class GangReservation:
    """The reservation of a blocked gang: it starts at `start` at the latest, and holds `grant` until `until`.

    `start` follows from the walltimes of running gangs. It is NEVER if it takes the end of a gang without a walltime:
    the time is unknown.
    """

    gang: PendingGang
    start: int
    until: int
    grant: Grant
    free: Amounts
    """int64[N, R]: free capacity beside it at its start, reduced by every admitted gang that still runs then."""
    guarded: Mask | None = None
    """bool[N]: nodes on which only short gangs fill gaps (`core.reservations.starvation_guard`); None: no node."""


def walltime_end(gang: PendingGang, start: int) -> int:
    """Returns the latest end of a gang that starts at `start`; NEVER if it has no walltime."""
    return NEVER if gang.walltime is None else min(start + gang.walltime, NEVER)


def overlaps(end: int, reservation: GangReservation) -> bool:
    """Tells whether a gang that ends at `end` still runs when the reservation starts, which is any time for NEVER."""
    return reservation.start < end or reservation.start == NEVER
