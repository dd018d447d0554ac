"""Who has to go so that a blocked gang fits: the cheapest set that suffices, proven by a full placement.

Gangs are taken in the order of `victims.Cost` until the one that asks would fit; first elastic gangs are made smaller,
then gangs are stopped. Whoever turns out not to be needed stays, the most costly first. If it does not fit in the end,
nobody goes. If it fits once those have left that are being stopped already, nobody further goes: it waits for them.
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
"""In what parts room for a replica is compared."""


@dataclass(frozen=True, slots=True, eq=False)
class Eviction:
    """What is taken back for one gang, and where the gang starts once that is done. Nobody, if it has only to wait."""

    gang: PendingGang
    placed: Placed
    """An elastic gang is placed at its least."""
    at: int
    """When all of it will have been given back, at the latest, in ms."""
    preemptions: tuple[Preemption, ...] = ()
    resizes: tuple[Resize, ...] = ()
    releases: tuple[VictimRelease, ...] = ()
    """What each of the preempted and resized gives back."""


@dataclass(frozen=True, slots=True, eq=False)
class SearchContext:
    """A plan as it stands when a gang finds no room in it. Nothing of it is changed."""

    snapshot: Snapshot
    now: int
    candidates: VictimCandidates
    free: Amounts
    """int64[N, R]: what is free now, whatever is promised."""
    usage: QueueUsage
    reserved_usage: QueueUsage | None = None
    """What is held once all have gone that are going, and what gangs that go first will take; None: nobody waits."""
    reservations: Sequence[GangReservation] = ()
    """Those that the gang would run into, of gangs for which nobody was evicted: what they take and give counted in."""
    closed: Mask | None = None
    """bool[N]: nodes that others have reserved; None: no node."""
    earlier: Sequence[Eviction] = ()
    """Those of this plan so far."""


def find_victims(context: SearchContext, gang: PendingGang) -> Eviction | None:
    """Make room for a gang that does not fit now; None if that is not possible. Pure."""
    search = _Search(context, gang)
    # 1. those that are being stopped already are enough
    if search.fits():
        return search.outcome() if context.candidates.releasing or context.earlier else None
    if not search.is_next():
        return None
    # 2. the cheapest first, until all of it fits; or those on the nodes that are cheapest as a whole
    if not (search.gather(search.candidates()) or search.gather(search.node_by_node())):
        return None
    # 3. who need not go stays, and who shrinks shrinks no further than needed
    search.reprieve()
    search.trim()
    # 4. proven by a full placement
    return search.outcome()


@dataclass(frozen=True, slots=True, eq=False)
class _Victim:
    """One gang that goes or, if it has a `placement` to go on with, shrinks: by the first replicas of `order`."""

    release: VictimRelease
    reason: str
    order: Sequence[int] = ()
    placement: Placement | None = None


class _Search:
    """One gang's search. What it has chosen so far is gone, on the nodes and in the usage."""

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
            self._simulation.take(earlier.placed.grant)
            self._rights.take(earlier.gang, total_of(minimum_demands(earlier.gang.demands)))
        self._rights.mark_start()

    def fits(self) -> bool:
        """Whether the gang would start if all that is chosen were gone."""
        return self._simulation.fits() and self._rights.has_quota()

    def is_next(self) -> bool:
        """Whether nobody who goes first would get what others give back."""
        return self._rights.is_next()

    # --- whom to ask --------------------------------------------------------------------------------

    def candidates(self) -> Sequence[RunningGang]:
        """Cheapest first."""
        return self._runs

    @cached_property
    def _runs(self) -> Sequence[RunningGang]:
        """Cheapest first. If quota lets the gang in, only who holds something of the nodes that it could use."""
        masks = [eligibility(self._table, demand).mask for demand in self._demands]
        mask: Mask | None = np.logical_or.reduce(masks) if self._rights.has_quota() else None
        taken = {given.run.id for given in self._expected}
        return [run for run in self._context.candidates.select(self._request, mask) if run.id not in taken]

    def node_by_node(self) -> Sequence[RunningGang]:
        """The same, those on one node after another: the nodes first of which the most costly is cheapest.

        For gangs that are entitled to less than all that stands before the last they need: what is taken then serves.
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
        """Choose, in this order, until it fits, and no further; False, and nobody chosen, if it never does."""
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
        """Who may be taken next, twice as many each time; the usage have got it back."""
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
        """Those of which one may be stopped if the next one may be."""
        run = given.run
        return run.queue, run.user, run.priority < self._gang.priority, tuple(given.amounts)

    def _ending(self, run: RunningGang, shrunk: VictimRelease | None) -> VictimRelease:
        """What it gives back by ending, beyond what it gives back by shrinking."""
        whole = self._full_release(run)
        if shrunk is None:
            return whole
        rest = {name: amount - shrunk.amounts.get(name, 0) for name, amount in whole.amounts.items()}
        return VictimRelease(run, subtract_grant(whole.grant, shrunk.grant), rest, whole=True)

    def _full_release(self, run: RunningGang) -> VictimRelease:
        """All that it holds; kept, as it is looked at in more than one order."""
        if run.id not in self._full_releases:
            grant = self._context.snapshot.grants[run.id]
            self._full_releases[run.id] = VictimRelease(run, grant, total_of(run.demands), whole=True)
        return self._full_releases[run.id]

    def _giving_order(self, run: RunningGang) -> Sequence[int]:
        """Its replicas, those first on the nodes where the gang gains most for the fewest of them."""
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
        """Leave out as many of those chosen last as can be: first what nodes do not need, then ask quota. Bisects."""
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

    # --- no more than needed --------------------------------------------------------------------------

    def reprieve(self) -> None:
        """Let everybody stay without whom it still fits, the most costly first."""
        stopped: set[str] = set()
        kept: list[_Victim] = []
        losses = self._simulation.losses([victim.release for victim in self._chosen])
        neighbours = _Neighbours(self._chosen)
        for number in reversed(range(len(self._chosen))):
            victim = self._chosen[number]
            # who goes for good need not also stay as large as it is
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
        """Whether it fits without the last of those chosen; then that one is there again."""
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
        """Let those that shrink keep as many replicas as they can."""
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
        """By so many instead."""
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
        """Those chosen last are there again."""
        del self._chosen[len(self._chosen) - len(last) :]
        self._simulation.restore(*(victim.release for victim in last))
        self._rights.restore(*(victim.release for victim in last))

    # --- what comes of it -------------------------------------------------------------------------------

    def outcome(self) -> Eviction | None:
        """The placement, and who goes for it; None if queues above would come to borrow more for it."""
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
        """When those of its nodes are free that are not yet."""
        now, rows = self._context.now, set(grant.rows.tolist())
        ends = [now + victim.release.run.grace for victim in self._chosen]
        ends += [
            given.run.release_time(now) for given in self._expected if not rows.isdisjoint(given.grant.rows.tolist())
        ]
        return max(ends, default=now)


class _Neighbours:
    """Which of some gangs have nodes in common."""

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
        """Those with a smaller number that share a node with this one."""
        return sorted({other for row in self._rows[number] for other in self._on[row] if other < number})


def expected_releases(
    snapshot: Snapshot, releasing: Iterable[RunningGang], earlier: Iterable[Eviction]
) -> Iterator[VictimRelease]:
    """What is given back already: by gangs that are being stopped or made smaller, and for others in this plan."""
    table, grants = snapshot.table, snapshot.grants
    for run in releasing:
        if run.leaving:
            yield VictimRelease(run, grants[run.id], total_of(run.demands), whole=True)
        elif run.resize_to is not None:
            after = finish_resize(table, run, grants[run.id])
            yield VictimRelease(run, after.freed, after.amounts, whole=False)
    for eviction in earlier:
        yield from eviction.releases
