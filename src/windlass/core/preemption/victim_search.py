"""Searches the victims of a blocked gang: the cheapest sufficient set, proven by a full placement.

Gangs are chosen in the order of `victims.Cost` until the requesting gang would fit; elastic gangs are shrunk first,
then gangs are stopped. Victims that turn out not to be needed are spared, the most costly first. If the gang does not
fit in the end, no gang is stopped. If it fits after the gangs that are already being stopped have ended, no further
gang is stopped, and it waits for those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np

from windlass.core.model.gang import PendingGang, RunningGang, minimum_demands, total_of
from windlass.core.model.plan import Preemption, Resize
from windlass.core.model.snapshot import Amounts, Grant, Snapshot
from windlass.core.nodes.feasibility import eligibility
from windlass.core.nodes.node_filters import Mask
from windlass.core.placement.elastic_resizing import (
    finish_resize,
    surplus_replicas,
)
from windlass.core.placement.gang_placement import Placed
from windlass.core.preemption.chosen_victims import ChosenVictims, reprieve, trim
from windlass.core.preemption.preemption_rights import PreemptionRights
from windlass.core.preemption.preemption_simulation import PreemptionSimulation, VictimRelease
from windlass.core.preemption.victim_releases import PossibleReleases, Victim
from windlass.core.preemption.victims import PreemptionRequest, VictimCandidates
from windlass.core.queues.orders.registry import order_of
from windlass.core.queues.usage import QueueUsage
from windlass.core.reservations.gang_reservation import GangReservation

_FIRST_BATCH = 8


@dataclass(frozen=True, slots=True, eq=False)
class Eviction:
    """The victims for one gang, and its placement afterwards. Without victims the gang only waits for earlier ones."""

    gang: PendingGang
    placed: Placed
    """Placement; of an elastic gang at its minimum size."""
    at: int
    """Time in ms at which all resources have been released, at the latest."""
    preemptions: tuple[Preemption, ...] = ()
    resizes: tuple[Resize, ...] = ()
    releases: tuple[VictimRelease, ...] = ()
    """The release of each preempted and resized gang."""


@dataclass(frozen=True, slots=True, eq=False)
class SearchContext:
    """A plan at the time when a gang finds no room in it. It is not modified."""

    snapshot: Snapshot
    now: int
    candidates: VictimCandidates
    free: Amounts
    """int64[N, R]: free capacity now, reservations ignored."""
    usage: QueueUsage
    reserved_usage: QueueUsage | None = None
    """Usage after all gangs being stopped have ended, plus claims of gangs ahead; None: no gang waits for quota."""
    reservations: Sequence[GangReservation] = ()
    """Reservations that the gang would overlap, of gangs without an eviction: their effects are included."""
    closed: Mask | None = None
    """bool[N]: nodes reserved by others; None: no node."""
    earlier: Sequence[Eviction] = ()
    """Earlier evictions of this plan."""


def find_victims(context: SearchContext, gang: PendingGang) -> Eviction | None:
    """Finds victims for a gang that does not fit now; None if that is impossible. Pure."""
    search = _Search(context, gang)
    # 1. the gangs that are being stopped already suffice
    if search.chosen.fits():
        return search.outcome() if context.candidates.releasing or context.earlier else None
    if not search.chosen.rights.is_next():
        return None
    # 2. the cheapest first, until the whole gang fits; or those on the nodes that are cheapest as a whole
    if not (search.gather(search.candidates) or search.gather(search.node_by_node())):
        return None
    # 3. victims that are not needed are spared, and shrinking is limited to the need
    reprieve(search.chosen)
    trim(search.chosen, search.releases)
    # 4. proven by a full placement
    return search.outcome()


class _Search:
    """The search for one gang among the candidates, cheapest first. `chosen` has the result."""

    def __init__(self, context: SearchContext, gang: PendingGang) -> None:
        self._context = context
        self._table = context.snapshot.table
        self._gang = gang
        self._demands = minimum_demands(gang.demands)
        order = order_of(context.snapshot.policy)
        self._request = PreemptionRequest(gang, total_of(self._demands), order)
        simulation = PreemptionSimulation(
            self._table, context.free, self._demands, context.reservations, context.closed
        )
        rights = PreemptionRights(self._request, context.usage, context.reserved_usage)
        self._expected = tuple(expected_releases(context.snapshot, context.candidates.releasing, context.earlier))
        simulation.release(*self._expected)
        rights.release_expected(*self._expected)
        for earlier in context.earlier:
            simulation.allocate(earlier.placed.grant)
            rights.add_request(earlier.gang, total_of(minimum_demands(earlier.gang.demands)))
        rights.mark_start()
        self.releases = PossibleReleases(context.snapshot, self._demands, simulation)
        self.chosen = ChosenVictims(simulation, rights)

    @cached_property
    def candidates(self) -> Sequence[RunningGang]:
        """Returns the candidates. If quota admits the gang, only those on nodes that it could use."""
        masks = [eligibility(self._table, demand).mask for demand in self._demands]
        mask: Mask | None = np.logical_or.reduce(masks) if self.chosen.rights.has_quota() else None
        taken = {given.run.id for given in self._expected}
        return [run for run in self._context.candidates.select(self._request, mask) if run.id not in taken]

    def node_by_node(self) -> Sequence[RunningGang]:
        """Returns the candidates grouped by node: first the nodes whose most costly gang is cheapest.

        For gangs without the right to all candidates before the last one they need: a node by node choice is then
        usable.
        """
        runs, grants = self.candidates, self._context.snapshot.grants
        dearest = np.full(len(self._table.nodes), -1)
        for place, run in enumerate(runs):
            dearest[grants[run.id].rows] = place
        everything = [self.releases.stop(run) for run in runs]
        self.chosen.simulation.release(*everything)
        useful = self.chosen.simulation.useful_nodes(self._demands)
        self.chosen.simulation.restore(*everything)
        rank = np.where(useful, dearest, len(runs))
        first = {run.id: int(rank[grants[run.id].rows].min(initial=len(runs))) for run in runs}
        return sorted((run for run in runs if first[run.id] < len(runs)), key=lambda run: first[run.id])

    # --- the cheapest first ---------------------------------------------------------------------------

    def gather(self, runs: Sequence[RunningGang]) -> bool:
        """Chooses victims in this order until the gang fits; returns False, with none chosen, if it never does."""
        for batch in self._batches(runs):
            self.chosen.choose_released(batch)
            if self.chosen.fits():
                self._back_to_the_first_that_fits(len(batch) - 1)
                return True
        self.chosen.drop(len(self.chosen.victims))
        return False

    def _batches(self, runs: Sequence[RunningGang]) -> Iterator[list[Victim]]:
        """Yields the next victims, twice as many each time; their usage is already released."""
        shrinks = [victim for run in runs if surplus_replicas(run) for victim in self._shrink_to_least(run)]
        if shrinks:
            yield shrinks
        shrunk = {victim.release.run.id: victim.release for victim in shrinks}
        start, size = 0, _FIRST_BATCH
        while start < len(runs):
            batch = [self.releases.stop_shrunk(run, shrunk.get(run.id)) for run in runs[start : start + size]]
            start, size = start + size, size * 2
            victims: list[Victim] = []
            for _, group in groupby(batch, key=self._group_key):
                members = list(group)
                number, reason = self.chosen.rights.stop_first(members)
                victims += [Victim(given, reason) for given in members[:number]]
            if victims:
                yield victims

    def _shrink_to_least(self, run: RunningGang) -> Iterator[Victim]:
        victim = self.releases.shrink(run, self.releases.shrink_order(run), surplus_replicas(run), "")
        if reason := self.chosen.rights.reason_to_shrink(victim.release):
            self.chosen.rights.release(victim.release)
            yield replace(victim, reason=reason)

    def _group_key(self, given: VictimRelease) -> tuple[object, ...]:
        """Returns the group key: one of a group may be stopped if the next one may be."""
        run = given.run
        return run.queue, run.user, run.priority < self._gang.priority, tuple(given.amounts)

    def _back_to_the_first_that_fits(self, most: int) -> None:
        """Removes as many of the last chosen as possible: first those that nodes do not need, then by quota."""
        simulation, victims = self.chosen.simulation, self.chosen.victims
        undone = [victim.release for victim in reversed(victims[len(victims) - most :])]
        low, high, gone = 0, most, 0
        while low < high:
            middle = (low + high + 1) // 2
            simulation.restore(*undone[gone:middle])
            simulation.release(*undone[middle:gone])
            gone = middle
            low, high = (middle, high) if simulation.fits() else (low, middle - 1)
        simulation.release(*undone[:gone])
        spare = self.chosen.drop(low)
        while spare and not self.chosen.rights.has_quota():
            self.chosen.choose(spare.pop(0))

    # --- result -------------------------------------------------------------------------------------------

    def outcome(self) -> Eviction | None:
        """Returns the placement and the victims; None if queues above would borrow more by it."""
        chosen, victims = self.chosen, self.chosen.victims
        if chosen.rights.has_inner_queues() and not chosen.are_allowed(victims):
            return None
        found = chosen.simulation.place()
        if found is None:
            return None
        stopped = {victim.release.run.id: victim for victim in victims if victim.release.whole}
        resized = [victim for victim in victims if victim.release.run.id not in stopped]
        return Eviction(
            gang=self._gang,
            placed=found,
            at=self._when(found.grant),
            preemptions=tuple(Preemption(job_id, self._gang.id, victim.reason) for job_id, victim in stopped.items()),
            resizes=tuple(_resize(victim, self._gang) for victim in resized),
            releases=tuple(victim.release for victim in victims),
        )

    def _when(self, grant: Grant) -> int:
        """Returns the time at which the last of its nodes becomes free."""
        now, rows = self._context.now, set(grant.rows.tolist())
        ends = [now + victim.release.run.grace for victim in self.chosen.victims]
        ends += [
            given.run.release_time(now) for given in self._expected if not rows.isdisjoint(given.grant.rows.tolist())
        ]
        return max(ends, default=now)


def _resize(victim: Victim, gang: PendingGang) -> Resize:
    assert victim.placement is not None  # noqa: S101 - it shrinks
    return Resize(victim.release.run.id, victim.placement, f"makes room for {gang.id}: {victim.reason}")


def expected_releases(
    snapshot: Snapshot, releasing: Iterable[RunningGang], earlier: Iterable[Eviction]
) -> Iterator[VictimRelease]:
    """Yields releases that are already under way: of gangs being stopped or shrunk, and for others in this plan."""
    table, grants = snapshot.table, snapshot.grants
    for run in releasing:
        if run.stopping:
            yield VictimRelease(run, grants[run.id], total_of(run.demands), whole=True)
        elif run.resize_to is not None:
            after = finish_resize(table, run, grants[run.id])
            yield VictimRelease(run, after.freed, after.amounts, whole=False)
    for eviction in earlier:
        yield from eviction.releases
