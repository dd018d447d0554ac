"""Free capacity at later times, beside the gangs that a plan starts and the reservations that it makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge

from windlass.core.model.gang import PendingGang
from windlass.core.model.snapshot import Amounts, Snapshot
from windlass.core.nodes.allocation import allocate_grant, minimum_free
from windlass.core.reservations.declared_reservations import reservations_against
from windlass.core.reservations.gang_reservation import GangReservation, overlaps, walltime_end
from windlass.core.reservations.release_forecast import (
    NEVER,
    EarlyRelease,
    FutureCapacity,
    ReleaseForecast,
    TimedRelease,
)


class FreeTimeline:
    """The forecast of one plan. `free` (int64[N, R]) is the plan's own free capacity, which the plan keeps up to date.

    `reservations`: in the order in which they were made.
    """

    def __init__(self, snapshot: Snapshot, now: int, free: Amounts) -> None:
        self._snapshot, self._now, self._free = snapshot, now, free
        self.reservations: list[GangReservation] = []
        self._forecast: ReleaseForecast | None = None
        self._starts: list[TimedRelease] = []
        self._later_starts: list[TimedRelease] = []
        """Gangs that started with the plan before the forecast was made, and since."""
        self._early: list[EarlyRelease] = []
        """Early releases of this plan, for gangs that are reserved a place."""

    @property
    def forecast(self) -> ReleaseForecast:
        """The forecast of releases, without the later starts and the reservations."""
        if self._forecast is None:
            self._forecast = ReleaseForecast(self._snapshot, self._now, self._free, self._starts, early=self._early)
        return self._forecast

    def add_start(self, started: TimedRelease) -> None:
        """Adds a gang that starts with the plan, and takes what it holds from the reservations that it overlaps."""
        (self._starts if self._forecast is None else self._later_starts).append(started)
        for reservation in self.reservations:
            if overlaps(started.at, reservation):
                allocate_grant(self._snapshot.table, reservation.free, started.grant)

    def release_early(self, releases: Sequence[EarlyRelease]) -> None:
        """Adds resources that the plan takes back from running gangs; the forecast is made again."""
        self._early += releases
        self._starts, self._later_starts, self._forecast = [*self._starts, *self._later_starts], [], None

    def free_at(self, at: int) -> Amounts:
        """Returns int64[N, R], a copy: the free capacity at a time that is not reserved."""
        free = self.forecast.free_at(at)
        for started in self._later_starts:
            if started.at > at:
                allocate_grant(self._snapshot.table, free, started.grant)
        for reservation in self.reservations:
            if reservation.start <= at < reservation.until or reservation.start == NEVER:
                allocate_grant(self._snapshot.table, free, reservation.grant)
        return free

    def possible_starts(self, gang: PendingGang, soonest: FutureCapacity) -> Iterator[FutureCapacity]:
        """Yields the times at which a gang may fit for the first time, with the capacity that it may use then.

        `soonest`: the first time at which it fits by the forecast alone.
        """
        declared = self._snapshot.reservations
        if not self.reservations and not self._later_starts and not declared:
            yield soonest
            return
        known = {started.at for started in self._later_starts} | {each.until for each in self.reservations}
        known |= {each.end for each in reservations_against(declared, gang)} | {max(soonest.at, self._now)}
        later = sorted(at for at in known if at >= soonest.at)
        last = None
        for at in merge(later, self.forecast.moments(soonest.at)):
            if at != last:
                yield FutureCapacity(at, self._free_throughout(at, walltime_end(gang, at)))
            last = at

    def _free_throughout(self, at: int, until: int) -> Amounts:
        """Returns the capacity that is free from one time to another."""
        free = self.free_at(at)
        for reservation in self.reservations:
            if at < reservation.start < until:
                free = minimum_free(self._snapshot.table, free, reservation.free)
        return free
