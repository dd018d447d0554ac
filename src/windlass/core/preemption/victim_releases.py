"""Victims, and the resources that running gangs release when they are stopped or shrunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.core.model.gang import Demand, RunningGang, total_of
from windlass.core.model.snapshot import Snapshot
from windlass.core.model.status import Placement
from windlass.core.nodes.allocation import subtract_grant
from windlass.core.placement.elastic_resizing import elastic_role, own_replicas, release_order, shrink_gang
from windlass.core.preemption.preemption_simulation import PreemptionSimulation, VictimRelease

_FINE = 1_000
"""Resolution in which the room for replicas is compared."""


@dataclass(frozen=True, slots=True, eq=False)
class Victim:
    """A gang that is stopped or, with a `placement` to continue on, shrunk: by the first replicas of `order`."""

    release: VictimRelease
    reason: str
    order: Sequence[int] = ()
    placement: Placement | None = None


class PossibleReleases:
    """The releases of running gangs that may become victims of a gang with these demands."""

    def __init__(self, snapshot: Snapshot, demands: Sequence[Demand], simulation: PreemptionSimulation) -> None:
        self._snapshot, self._demands, self._simulation = snapshot, demands, simulation
        self._whole: dict[str, VictimRelease] = {}

    def stop(self, run: RunningGang) -> VictimRelease:
        """Returns the release of everything that a gang holds, cached because it is used in several orders."""
        if run.id not in self._whole:
            grant = self._snapshot.grants[run.id]
            self._whole[run.id] = VictimRelease(run, grant, total_of(run.demands), whole=True)
        return self._whole[run.id]

    def stop_shrunk(self, run: RunningGang, shrunk: VictimRelease | None) -> VictimRelease:
        """Returns the release of stopping a gang beyond that of shrinking it; None: it is not shrunk."""
        whole = self.stop(run)
        if shrunk is None:
            return whole
        rest = {name: amount - shrunk.amounts.get(name, 0) for name, amount in whole.amounts.items()}
        return VictimRelease(run, subtract_grant(whole.grant, shrunk.grant), rest, whole=True)

    def shrink(self, run: RunningGang, order: Sequence[int], replicas: int, reason: str) -> Victim:
        """Returns the gang as a victim that gives up this number of replicas, the first of `order`."""
        less = shrink_gang(self._snapshot.table, run, order[:replicas])
        return Victim(VictimRelease(run, less.freed, less.amounts, whole=False), reason, order, less.placement)

    def shrink_order(self, run: RunningGang) -> Sequence[int]:
        """Returns the replicas of an elastic gang, ordered by the gain for the gang per replica on their node."""
        role, grant = elastic_role(run), self._snapshot.grants[run.id]
        assert role is not None  # noqa: S101 - it has a surplus
        own = {self._snapshot.table.row.get(name, -1): number for name, number in own_replicas(run).items()}
        demand = max(self._demands, key=lambda demand: demand.count)
        gain = dict(zip(grant.rows.tolist(), self._simulation.gain(grant, demand), strict=True))
        rows = sorted(own, key=lambda row: (-(gain.get(row, 0) * _FINE // own[row]), -row))
        return release_order(self._snapshot.table, run, rows)
