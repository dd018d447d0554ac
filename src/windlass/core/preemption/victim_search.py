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
from windlass.core.nodes.feasibility import Mask, eligibility
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
    given: tuple[VictimRelease, ...] = ()
    """What each of the preempted and resized gives back."""


@dataclass(frozen=True, slots=True, eq=False)
class SearchContext:
    """A plan as it stands when a gang finds no room in it. Nothing of it is changed."""

    snapshot: Snapshot
    now: int
    lineup: VictimCandidates
    free: Amounts
    """int64[N, R]: what is free now, whatever is promised."""
    accounts: QueueUsage
    spoken_for: QueueUsage | None = None
    """What is held once all have gone that are going, and what gangs that go first will take; None: nobody waits."""
    promises: Sequence[GangReservation] = ()
    """Those that the gang would run into, of gangs for which nobody was evicted: what they take and give counted in."""
    closed: Mask | None = None
    """bool[N]: nodes that others have reserved; None: no node."""
    before: Sequence[Eviction] = ()
    """Those of this plan so far."""


def find_victims(ground: SearchContext, gang: PendingGang) -> Eviction | None:
    """Make room for a gang that does not fit now; None if that is not possible. Pure."""
    search = _Search(ground, gang)
    # 1. those that are being stopped already are enough
    if search.fits():
        return search.outcome() if ground.lineup.going or ground.before else None
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
class _Step:
    """One gang that goes or, if it has a `placement` to go on with, shrinks: by the first replicas of `order`."""

    given: VictimRelease
    reason: str
    order: Sequence[int] = ()
    placement: Placement | None = None


class _Search:
    """One gang's search. What it has chosen so far is gone, on the nodes and in the accounts."""

    def __init__(self, ground: SearchContext, gang: PendingGang) -> None:
        self._ground = ground
        self._table = ground.snapshot.table
        self._gang = gang
        self._demands = minimum_demands(gang.demands)
        order = order_of(ground.snapshot.policy)
        self._asked = PreemptionRequest(gang, total_of(self._demands), order)
        self._chosen: list[_Step] = []
        self._wholes: dict[str, VictimRelease] = {}
        self._nodes = PreemptionSimulation(self._table, ground.free, self._demands, ground.promises, ground.closed)
        self._rights = PreemptionRights(self._asked, ground.accounts, ground.spoken_for)
        self._coming = tuple(expected_releases(ground.snapshot, ground.lineup.going, ground.before))
        self._nodes.give(*self._coming)
        self._rights.expect(*self._coming)
        for earlier in ground.before:
            self._nodes.take(earlier.placed.grant)
            self._rights.take(earlier.gang, total_of(minimum_demands(earlier.gang.demands)))
        self._rights.begin()

    def fits(self) -> bool:
        """Whether the gang would start if all that is chosen were gone."""
        return self._nodes.fits() and self._rights.lets_in()

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
        mask: Mask | None = np.logical_or.reduce(masks) if self._rights.lets_in() else None
        taken = {given.run.id for given in self._coming}
        return [run for run in self._ground.lineup.candidates(self._asked, mask) if run.id not in taken]

    def node_by_node(self) -> Sequence[RunningGang]:
        """The same, those on one node after another: the nodes first of which the most costly is cheapest.

        For gangs that are entitled to less than all that stands before the last they need: what is taken then serves.
        """
        runs, grants = self._runs, self._ground.snapshot.grants
        dearest = np.full(len(self._table.nodes), -1)
        for place, run in enumerate(runs):
            dearest[grants[run.id].rows] = place
        everybody = [self._whole(run) for run in runs]
        self._nodes.give(*everybody)
        useful = self._nodes.helps(self._demands)
        self._nodes.undo(*everybody)
        rank = np.where(useful, dearest, len(runs))
        first = {run.id: int(rank[grants[run.id].rows].min(initial=len(runs))) for run in runs}
        return sorted((run for run in runs if first[run.id] < len(runs)), key=lambda run: first[run.id])

    # --- the cheapest first ---------------------------------------------------------------------------

    def gather(self, runs: Sequence[RunningGang]) -> bool:
        """Choose, in this order, until it fits, and no further; False, and nobody chosen, if it never does."""
        for batch in self._batches(runs):
            self._nodes.give(*(step.given for step in batch))
            self._chosen += batch
            if self.fits():
                self._back_to_the_first_that_fits(len(batch) - 1)
                return True
        self._nodes.undo(*(step.given for step in self._chosen))
        self._rights.undo(*(step.given for step in self._chosen))
        self._chosen.clear()
        return False

    def _batches(self, runs: Sequence[RunningGang]) -> Iterator[list[_Step]]:
        """Who may be taken next, twice as many each time; the accounts have got it back."""
        shrinks = [step for run in runs if surplus_replicas(run) for step in self._shrink_to_least(run)]
        if shrinks:
            yield shrinks
        shrunk = {step.given.run.id: step.given for step in shrinks}
        start, size = 0, _FIRST_BATCH
        while start < len(runs):
            batch = [self._ending(run, shrunk.get(run.id)) for run in runs[start : start + size]]
            start, size = start + size, size * 2
            steps: list[_Step] = []
            for _, group in groupby(batch, key=self._alike):
                members = list(group)
                number, reason = self._rights.stop(members)
                steps += [_Step(given, reason) for given in members[:number]]
            if steps:
                yield steps

    def _shrink_to_least(self, run: RunningGang) -> Iterator[_Step]:
        order, most = self._giving_order(run), surplus_replicas(run)
        step = self._shrinking(run, order, most, "")
        if reason := self._rights.to_shrink(step.given):
            self._rights.give(step.given)
            yield replace(step, reason=reason)

    def _alike(self, given: VictimRelease) -> tuple[object, ...]:
        """Those of which one may be stopped if the next one may be."""
        run = given.run
        return run.queue, run.user, run.priority < self._gang.priority, tuple(given.amounts)

    def _ending(self, run: RunningGang, shrunk: VictimRelease | None) -> VictimRelease:
        """What it gives back by ending, beyond what it gives back by shrinking."""
        whole = self._whole(run)
        if shrunk is None:
            return whole
        rest = {name: amount - shrunk.amounts.get(name, 0) for name, amount in whole.amounts.items()}
        return VictimRelease(run, subtract_grant(whole.grant, shrunk.grant), rest, whole=True)

    def _whole(self, run: RunningGang) -> VictimRelease:
        """All that it holds; kept, as it is looked at in more than one order."""
        if run.id not in self._wholes:
            grant = self._ground.snapshot.grants[run.id]
            self._wholes[run.id] = VictimRelease(run, grant, total_of(run.demands), whole=True)
        return self._wholes[run.id]

    def _giving_order(self, run: RunningGang) -> Sequence[int]:
        """Its replicas, those first on the nodes where the gang gains most for the fewest of them."""
        role, grant = elastic_role(run), self._ground.snapshot.grants[run.id]
        assert role is not None  # noqa: S101 - it has a surplus
        own = {self._table.row.get(name, -1): number for name, number in own_replicas(run).items()}
        demand = max(self._demands, key=lambda demand: demand.count)
        gain = dict(zip(grant.rows.tolist(), self._nodes.gain(grant, demand), strict=True))
        rows = sorted(own, key=lambda row: (-(gain.get(row, 0) * _FINE // own[row]), -row))
        return release_order(self._table, run, rows)

    def _shrinking(self, run: RunningGang, order: Sequence[int], replicas: int, reason: str) -> _Step:
        less = shrink_gang(self._table, run, order[:replicas])
        return _Step(VictimRelease(run, less.freed, less.amounts, whole=False), reason, order, less.placement)

    def _back_to_the_first_that_fits(self, most: int) -> None:
        """Leave out as many of those chosen last as can be: first what nodes do not need, then ask quota. Bisects."""
        undone = [step.given for step in reversed(self._chosen[len(self._chosen) - most :])]
        low, high, gone = 0, most, 0
        while low < high:
            middle = (low + high + 1) // 2
            self._nodes.undo(*undone[gone:middle])
            self._nodes.give(*undone[middle:gone])
            gone = middle
            low, high = (middle, high) if self._nodes.fits() else (low, middle - 1)
        self._nodes.give(*undone[:gone])
        spare = self._chosen[len(self._chosen) - low :]
        self._drop(spare)
        while spare and not self._rights.lets_in():
            self._choose(spare.pop(0))

    # --- no more than needed --------------------------------------------------------------------------

    def reprieve(self) -> None:
        """Let everybody stay without whom it still fits, the most costly first."""
        stopped: set[str] = set()
        kept: list[_Step] = []
        losses = self._nodes.losses([step.given for step in self._chosen])
        neighbours = _Neighbours(self._chosen)
        for number in reversed(range(len(self._chosen))):
            step = self._chosen[number]
            # who goes for good need not also stay as large as it is
            needed = step.given.run.id in stopped or losses[number] > self._nodes.slack()
            if needed or not self._can_do_without(step, kept):
                kept.append(step)
                stopped |= {step.given.run.id} if step.given.whole else set()
            else:
                near = neighbours.before(number)
                for other, loss in zip(near, self._nodes.losses([self._chosen[n].given for n in near]), strict=True):
                    losses[other] = loss
            self._chosen.pop()
        self._chosen = kept[::-1]

    def _can_do_without(self, step: _Step, kept: Sequence[_Step]) -> bool:
        """Whether it fits without the last of those chosen; then that one is there again."""
        self._nodes.undo(step.given)
        if not self._nodes.fits():
            self._nodes.give(step.given)
            return False
        self._rights.undo(step.given)
        others = [*self._chosen[:-1], *reversed(kept)]
        if self._rights.lets_in() and (not self._rights.depends_on(step.given) or self._is_covered(others)):
            return True
        self._rights.give(step.given)
        self._nodes.give(step.given)
        return False

    def trim(self) -> None:
        """Let those that shrink keep as many replicas as they can."""
        stopped = {step.given.run.id for step in self._chosen if step.given.whole}
        for number, step in enumerate(self._chosen):
            if step.given.run.id in stopped:
                continue
            low, high = 1, surplus_replicas(step.given.run)
            while low < high:
                middle = (low + high) // 2
                self._shrink(number, middle)
                low, high = (low, middle) if self.fits() else (middle + 1, high)
            self._shrink(number, low)

    def _shrink(self, number: int, replicas: int) -> None:
        """By so many instead."""
        before = self._chosen[number]
        after = self._shrinking(before.given.run, before.order, replicas, before.reason)
        self._nodes.undo(before.given)
        self._rights.undo(before.given)
        self._nodes.give(after.given)
        self._rights.give(after.given)
        self._chosen[number] = after

    def _is_covered(self, steps: Sequence[_Step]) -> bool:
        return self._rights.covers((step.given, step.reason) for step in steps)

    def _choose(self, step: _Step) -> None:
        self._chosen.append(step)
        self._nodes.give(step.given)
        self._rights.give(step.given)

    def _drop(self, last: Sequence[_Step]) -> None:
        """Those chosen last are there again."""
        del self._chosen[len(self._chosen) - len(last) :]
        self._nodes.undo(*(step.given for step in last))
        self._rights.undo(*(step.given for step in last))

    # --- what comes of it -------------------------------------------------------------------------------

    def outcome(self) -> Eviction | None:
        """The placement, and who goes for it; None if queues above would come to borrow more for it."""
        if self._rights.is_deep() and not self._is_covered(self._chosen):
            return None
        found = self._nodes.place()
        if found is None:
            return None
        stopped = {step.given.run.id: step for step in self._chosen if step.given.whole}
        resized = [step for step in self._chosen if step.given.run.id not in stopped]
        return Eviction(
            gang=self._gang,
            placed=found,
            at=self._when(found.grant),
            preemptions=tuple(Preemption(job_id, self._gang.id, step.reason) for job_id, step in stopped.items()),
            resizes=tuple(self._resize(step) for step in resized),
            given=tuple(step.given for step in self._chosen),
        )

    def _resize(self, step: _Step) -> Resize:
        assert step.placement is not None  # noqa: S101 - it shrinks
        return Resize(step.given.run.id, step.placement, f"makes room for {self._gang.id}: {step.reason}")

    def _when(self, grant: Grant) -> int:
        """When those of its nodes are free that are not yet."""
        now, rows = self._ground.now, set(grant.rows.tolist())
        ends = [now + step.given.run.grace for step in self._chosen]
        ends += [
            given.run.release_time(now) for given in self._coming if not rows.isdisjoint(given.grant.rows.tolist())
        ]
        return max(ends, default=now)


class _Neighbours:
    """Which of some gangs have nodes in common."""

    def __init__(self, steps: Sequence[_Step]) -> None:
        self._rows = [step.given.grant.rows.tolist() for step in steps]

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
    snapshot: Snapshot, going: Iterable[RunningGang], before: Iterable[Eviction]
) -> Iterator[VictimRelease]:
    """What is given back already: by gangs that are being stopped or made smaller, and for others in this plan."""
    table, grants = snapshot.table, snapshot.grants
    for run in going:
        if run.leaving:
            yield VictimRelease(run, grants[run.id], total_of(run.demands), whole=True)
        elif run.resize_to is not None:
            after = finish_resize(table, run, grants[run.id])
            yield VictimRelease(run, after.freed, after.amounts, whole=False)
    for eviction in before:
        yield from eviction.given
