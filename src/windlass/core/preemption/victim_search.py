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
from windlass.core.model.status import Placement
from windlass.core.nodes.allocation import subtract_grant
from windlass.core.nodes.feasibility import eligibility
from windlass.core.nodes.node_filters import Mask
from windlass.core.placement.elastic_resizing import (
    elastic_role,
    finish_resize,
    own_replicas,
    release_order,
    shrink_gang,
    surplus_replicas,
)
from windlass.core.placement.gang_placement import Placed
from windlass.core.preemption.preemption_rights import PreemptionRights
from windlass.core.preemption.preemption_simulation import PreemptionSimulation, VictimRelease
from windlass.core.preemption.victims import PreemptionRequest, VictimCandidates
from windlass.core.queues.orders.registry import order_of
from windlass.core.queues.usage import QueueUsage
from windlass.core.reservations.reservation_profile import GangReservation

_FIRST_BATCH = 8
_FINE = 1_000
"""Resolution in which the room for replicas is compared."""


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
    if search.fits():
        return search.outcome() if context.candidates.releasing or context.earlier else None
    if not search.is_next():
        return None
    # 2. the cheapest first, until the whole gang fits; or those on the nodes that are cheapest as a whole
    if not (search.gather(search.candidates()) or search.gather(search.node_by_node())):
        return None
    # 3. victims that are not needed are spared, and shrinking is limited to the need
    search.reprieve()
    search.trim()
    # 4. proven by a full placement
    return search.outcome()


@dataclass(frozen=True, slots=True, eq=False)
class _Victim:
    """A gang that is stopped or, with a `placement` to continue on, shrunk: by the first replicas of `order`."""

    release: VictimRelease
    reason: str
    order: Sequence[int] = ()
    placement: Placement | None = None


class _Search:
    """The search for one gang. Chosen victims are released, on the nodes and in the usage."""

    def __init__(self, context: SearchContext, gang: PendingGang) -> None:
        self._context = context
        self._table = context.snapshot.table
        self._gang = gang
        self._demands = minimum_demands(gang.demands)
        order = order_of(context.snapshot.policy)
        self._request = PreemptionRequest(gang, total_of(self._demands), order)
        self._chosen: list[_Victim] = []
        self._full_releases: dict[str, VictimRelease] = {}
        self._simulation = PreemptionSimulation(
            self._table, context.free, self._demands, context.reservations, context.closed
        )
        self._rights = PreemptionRights(self._request, context.usage, context.reserved_usage)
        self._expected = tuple(expected_releases(context.snapshot, context.candidates.releasing, context.earlier))
        self._simulation.release(*self._expected)
        self._rights.release_expected(*self._expected)
        for earlier in context.earlier:
            self._simulation.allocate(earlier.placed.grant)
            self._rights.add_request(earlier.gang, total_of(minimum_demands(earlier.gang.demands)))
        self._rights.mark_start()

    def fits(self) -> bool:
        """Tells whether the gang would start if all chosen victims were gone."""
        return self._simulation.fits() and self._rights.has_quota()

    def is_next(self) -> bool:
        """Tells whether no gang ahead would get the released resources."""
        return self._rights.is_next()

    # --- candidates ----------------------------------------------------------------------------------

    def candidates(self) -> Sequence[RunningGang]:
        """Returns the candidates, cheapest first."""
        return self._runs

    @cached_property
    def _runs(self) -> Sequence[RunningGang]:
        """Returns the candidates. If quota admits the gang, only those on nodes that it could use."""
        masks = [eligibility(self._table, demand).mask for demand in self._demands]
        mask: Mask | None = np.logical_or.reduce(masks) if self._rights.has_quota() else None
        taken = {given.run.id for given in self._expected}
        return [run for run in self._context.candidates.select(self._request, mask) if run.id not in taken]

    def node_by_node(self) -> Sequence[RunningGang]:
        """Returns the candidates grouped by node: first the nodes whose most costly gang is cheapest.

        For gangs without the right to all candidates before the last one they need: a node by node choice is then
        usable.
        """
        runs, grants = self._runs, self._context.snapshot.grants
        dearest = np.full(len(self._table.nodes), -1)
        for place, run in enumerate(runs):
            dearest[grants[run.id].rows] = place
        everybody = [self._full_release(run) for run in runs]
        self._simulation.release(*everybody)
        useful = self._simulation.useful_nodes(self._demands)
        self._simulation.restore(*everybody)
        rank = np.where(useful, dearest, len(runs))
        first = {run.id: int(rank[grants[run.id].rows].min(initial=len(runs))) for run in runs}
        return sorted((run for run in runs if first[run.id] < len(runs)), key=lambda run: first[run.id])

    # --- the cheapest first ---------------------------------------------------------------------------

    def gather(self, runs: Sequence[RunningGang]) -> bool:
        """Chooses victims in this order until the gang fits; returns False, with none chosen, if it never does."""
        for batch in self._batches(runs):
            self._simulation.release(*(victim.release for victim in batch))
            self._chosen += batch
            if self.fits():
                self._back_to_the_first_that_fits(len(batch) - 1)
                return True
        self._simulation.restore(*(victim.release for victim in self._chosen))
        self._rights.restore(*(victim.release for victim in self._chosen))
        self._chosen.clear()
        return False

    def _batches(self, runs: Sequence[RunningGang]) -> Iterator[list[_Victim]]:
        """Yields the next victims, twice as many each time; their usage is already released."""
        shrinks = [victim for run in runs if surplus_replicas(run) for victim in self._shrink_to_least(run)]
        if shrinks:
            yield shrinks
        shrunk = {victim.release.run.id: victim.release for victim in shrinks}
        start, size = 0, _FIRST_BATCH
        while start < len(runs):
            batch = [self._ending(run, shrunk.get(run.id)) for run in runs[start : start + size]]
            start, size = start + size, size * 2
            victims: list[_Victim] = []
            for _, group in groupby(batch, key=self._group_key):
                members = list(group)
                number, reason = self._rights.stop_first(members)
                victims += [_Victim(given, reason) for given in members[:number]]
            if victims:
                yield victims

    def _shrink_to_least(self, run: RunningGang) -> Iterator[_Victim]:
        order, most = self._giving_order(run), surplus_replicas(run)
        victim = self._shrinking(run, order, most, "")
        if reason := self._rights.reason_to_shrink(victim.release):
            self._rights.release(victim.release)
            yield replace(victim, reason=reason)

    def _group_key(self, given: VictimRelease) -> tuple[object, ...]:
        """Returns the group key: one of a group may be stopped if the next one may be."""
        run = given.run
        return run.queue, run.user, run.priority < self._gang.priority, tuple(given.amounts)

    def _ending(self, run: RunningGang, shrunk: VictimRelease | None) -> VictimRelease:
        """Returns the release of ending a gang beyond that of shrinking it."""
        whole = self._full_release(run)
        if shrunk is None:
            return whole
        rest = {name: amount - shrunk.amounts.get(name, 0) for name, amount in whole.amounts.items()}
        return VictimRelease(run, subtract_grant(whole.grant, shrunk.grant), rest, whole=True)

    def _full_release(self, run: RunningGang) -> VictimRelease:
        """Returns the release of everything that a gang holds, cached because it is used in several orders."""
        if run.id not in self._full_releases:
            grant = self._context.snapshot.grants[run.id]
            self._full_releases[run.id] = VictimRelease(run, grant, total_of(run.demands), whole=True)
        return self._full_releases[run.id]

    def _giving_order(self, run: RunningGang) -> Sequence[int]:
        """Returns its replicas, ordered by the gain for the gang per replica on their node."""
        role, grant = elastic_role(run), self._context.snapshot.grants[run.id]
        assert role is not None  # noqa: S101 - it has a surplus
        own = {self._table.row.get(name, -1): number for name, number in own_replicas(run).items()}
        demand = max(self._demands, key=lambda demand: demand.count)
        gain = dict(zip(grant.rows.tolist(), self._simulation.gain(grant, demand), strict=True))
        rows = sorted(own, key=lambda row: (-(gain.get(row, 0) * _FINE // own[row]), -row))
        return release_order(self._table, run, rows)

    def _shrinking(self, run: RunningGang, order: Sequence[int], replicas: int, reason: str) -> _Victim:
        less = shrink_gang(self._table, run, order[:replicas])
        return _Victim(VictimRelease(run, less.freed, less.amounts, whole=False), reason, order, less.placement)

    def _back_to_the_first_that_fits(self, most: int) -> None:
        """Removes as many of the last chosen as possible: first those that nodes do not need, then by quota."""
        undone = [victim.release for victim in reversed(self._chosen[len(self._chosen) - most :])]
        low, high, gone = 0, most, 0
        while low < high:
            middle = (low + high + 1) // 2
            self._simulation.restore(*undone[gone:middle])
            self._simulation.release(*undone[middle:gone])
            gone = middle
            low, high = (middle, high) if self._simulation.fits() else (low, middle - 1)
        self._simulation.release(*undone[:gone])
        spare = self._chosen[len(self._chosen) - low :]
        self._drop(spare)
        while spare and not self._rights.has_quota():
            self._choose(spare.pop(0))

    # --- sparing victims -----------------------------------------------------------------------------

    def reprieve(self) -> None:
        """Spares every victim without which the gang still fits, the most costly first."""
        stopped: set[str] = set()
        kept: list[_Victim] = []
        losses = self._simulation.losses([victim.release for victim in self._chosen])
        neighbours = _Neighbours(self._chosen)
        for number in reversed(range(len(self._chosen))):
            victim = self._chosen[number]
            # a gang that is stopped need not also be shrunk
            needed = victim.release.run.id in stopped or losses[number] > self._simulation.slack()
            if needed or not self._can_do_without(victim, kept):
                kept.append(victim)
                stopped |= {victim.release.run.id} if victim.release.whole else set()
            else:
                near = neighbours.before(number)
                loss_near = self._simulation.losses([self._chosen[n].release for n in near])
                for other, loss in zip(near, loss_near, strict=True):
                    losses[other] = loss
            self._chosen.pop()
        self._chosen = kept[::-1]

    def _can_do_without(self, victim: _Victim, kept: Sequence[_Victim]) -> bool:
        """Tells whether the gang fits without the last chosen; then restores that one."""
        self._simulation.restore(victim.release)
        if not self._simulation.fits():
            self._simulation.release(victim.release)
            return False
        self._rights.restore(victim.release)
        others = [*self._chosen[:-1], *reversed(kept)]
        if self._rights.has_quota() and (not self._rights.depends_on(victim.release) or self._is_covered(others)):
            return True
        self._rights.release(victim.release)
        self._simulation.release(victim.release)
        return False

    def trim(self) -> None:
        """Lets shrinking gangs keep as many replicas as possible."""
        stopped = {victim.release.run.id for victim in self._chosen if victim.release.whole}
        for number, victim in enumerate(self._chosen):
            if victim.release.run.id in stopped:
                continue
            low, high = 1, surplus_replicas(victim.release.run)
            while low < high:
                middle = (low + high) // 2
                self._shrink(number, middle)
                low, high = (low, middle) if self.fits() else (middle + 1, high)
            self._shrink(number, low)

    def _shrink(self, number: int, replicas: int) -> None:
        """Changes the number of replicas that a victim gives up."""
        before = self._chosen[number]
        after = self._shrinking(before.release.run, before.order, replicas, before.reason)
        self._simulation.restore(before.release)
        self._rights.restore(before.release)
        self._simulation.release(after.release)
        self._rights.release(after.release)
        self._chosen[number] = after

    def _is_covered(self, victims: Sequence[_Victim]) -> bool:
        return self._rights.allows_all((victim.release, victim.reason) for victim in victims)

    def _choose(self, victim: _Victim) -> None:
        self._chosen.append(victim)
        self._simulation.release(victim.release)
        self._rights.release(victim.release)

    def _drop(self, last: Sequence[_Victim]) -> None:
        """Restores the last chosen victims."""
        del self._chosen[len(self._chosen) - len(last) :]
        self._simulation.restore(*(victim.release for victim in last))
        self._rights.restore(*(victim.release for victim in last))

    # --- result -------------------------------------------------------------------------------------------

    def outcome(self) -> Eviction | None:
        """Returns the placement and the victims; None if queues above would borrow more by it."""
        if self._rights.has_inner_queues() and not self._is_covered(self._chosen):
            return None
        found = self._simulation.place()
        if found is None:
            return None
        stopped = {victim.release.run.id: victim for victim in self._chosen if victim.release.whole}
        resized = [victim for victim in self._chosen if victim.release.run.id not in stopped]
        return Eviction(
            gang=self._gang,
            placed=found,
            at=self._when(found.grant),
            preemptions=tuple(Preemption(job_id, self._gang.id, victim.reason) for job_id, victim in stopped.items()),
            resizes=tuple(self._resize(victim) for victim in resized),
            releases=tuple(victim.release for victim in self._chosen),
        )

    def _resize(self, victim: _Victim) -> Resize:
        assert victim.placement is not None  # noqa: S101 - it shrinks
        return Resize(victim.release.run.id, victim.placement, f"makes room for {self._gang.id}: {victim.reason}")

    def _when(self, grant: Grant) -> int:
        """Returns the time at which the last of its nodes becomes free."""
        now, rows = self._context.now, set(grant.rows.tolist())
        ends = [now + victim.release.run.grace for victim in self._chosen]
        ends += [
            given.run.release_time(now) for given in self._expected if not rows.isdisjoint(given.grant.rows.tolist())
        ]
        return max(ends, default=now)


class _Neighbours:
    """Gangs that share nodes."""

    def __init__(self, victims: Sequence[_Victim]) -> None:
        self._rows = [victim.release.grant.rows.tolist() for victim in victims]

    @cached_property
    def _on(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for number, rows in enumerate(self._rows):
            for row in rows:
                found.setdefault(row, []).append(number)
        return found

    def before(self, number: int) -> list[int]:
        """Returns those with a smaller number that share a node with this one."""
        return sorted({other for row in self._rows[number] for other in self._on[row] if other < number})


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
