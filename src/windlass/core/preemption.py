"""Who has to go so that a blocked gang fits: the cheapest set that suffices, proven by a full placement.

Gangs are taken in the order of `victims.Cost` until the one that asks would fit; first elastic gangs are made smaller,
then gangs are stopped. Whoever turns out not to be needed stays, the most costly first. If it does not fit in the end,
nobody goes. If it fits once those have left that are being stopped already, nobody further goes: it waits for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from windlass.core.accounts import Accounts
from windlass.core.booking import give_back, grant_of, lower, settle, take
from windlass.core.cohort import Amounts
from windlass.core.fairshare import Shares, reclaims
from windlass.core.feasibility import Mask, eligibility, room_per_node
from windlass.core.gang import Pending, Running, at_least, placed, total_of
from windlass.core.limits import limit
from windlass.core.placement import Placed, fits, place
from windlass.core.plan import Preemption, Resize
from windlass.core.quota import claimed, short
from windlass.core.resizing import giving_order, own_replicas, smaller, surplus
from windlass.core.snapshot import Amounts as Nodes
from windlass.core.snapshot import Grant, NodeTable, Snapshot
from windlass.core.status import Placement
from windlass.core.timetable import Promise
from windlass.core.victims import BORROWED, Asked, Lineup, may_shrink, may_stop

_FIRST_BATCH = 8


@dataclass(frozen=True, slots=True, eq=False)
class Eviction:
    """What is taken back for one gang, and where the gang starts once that is done. Nobody, if it has only to wait."""

    gang: Pending
    placed: Placed
    """An elastic gang is placed at its least."""
    at: int
    """When all of it will have been given back, at the latest, in ms."""
    beside: Nodes
    """int64[N, R]: what is free beside the gang then."""
    preemptions: tuple[Preemption, ...] = ()
    resizes: tuple[Resize, ...] = ()
    given: tuple[Given, ...] = ()
    """What each of the preempted and resized gives back."""


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What one running gang gives back, and whether it is stopped for that or made smaller."""

    run: Running
    grant: Grant
    amounts: Amounts
    whole: bool


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """A plan as it stands when a gang finds no room in it. Nothing of it is changed."""

    snapshot: Snapshot
    now: int
    lineup: Lineup
    free: Nodes
    """int64[N, R]: what is free now, whatever is promised."""
    accounts: Accounts
    spoken_for: Accounts | None = None
    """The same, and what gangs that go first will take; None: nobody waits for quota."""
    promises: Sequence[Promise] = ()
    """Those that the gang would run into, of gangs for which nobody was evicted: what they take and give counted in."""
    closed: Mask | None = None
    """bool[N]: nodes that others have reserved; None: no node."""
    before: Sequence[Eviction] = ()
    """Those of this plan so far."""


def victims_for(ground: Ground, gang: Pending) -> Eviction | None:
    """Make room for a gang that does not fit now; None if that is not possible. Pure."""
    search = _Search(ground, gang)
    # 1. those that are being stopped already are enough
    if search.fits():
        return search.outcome() if ground.lineup.going or ground.before else None
    # 2. the cheapest first, until all of it fits
    if not search.gather():
        return None
    # 3. who need not go stays, and who shrinks shrinks no further than needed
    search.reprieve()
    search.trim()
    # 4. proven by a full placement
    return search.outcome() if search.is_fair() else None


class _Search:
    """One gang's search. What it has chosen so far is counted as given back, on the nodes and in the accounts."""

    def __init__(self, ground: Ground, gang: Pending) -> None:
        self._ground = ground
        self._table = ground.snapshot.table
        self._gang = gang
        self._demands = at_least(gang.demands)
        self._asked = Asked(gang, total_of(self._demands))
        self._chosen: list[_Step] = []
        self._later = _Later(ground)
        self._books = [books.copy() for books in (ground.accounts, ground.spoken_for) if books is not None]
        """The accounts, and what is spoken for, if anybody waits for quota."""
        for given in _coming(ground):
            self._later.add(given)
            self._credit(given)
        for earlier in ground.before:
            self._later.remove(earlier.placed.grant)
            self._books[0].take(earlier.gang.queue, earlier.gang.user, total_of(at_least(earlier.gang.demands)))
        self._start = self._books[0].copy()

    # --- does it fit --------------------------------------------------------------------------------

    def fits(self) -> bool:
        """Whether the gang would start if all that is chosen were gone."""
        return self._allowed() and fits(self._later.room(), self._table, self._demands)

    def _allowed(self) -> bool:
        gang, request, books = self._gang, self._asked.request, self._books
        if short(books[0], gang.queue, request) or limit(books[0], gang.queue, gang.user, request):
            return False
        return len(books) == 1 or not claimed(books[1], gang.queue, request)

    # --- the cheapest first ---------------------------------------------------------------------------

    def gather(self) -> bool:
        """Choose until it fits, and no further; False if it never does."""
        steps, size = self._steps(), _FIRST_BATCH
        while batch := list(islice(steps, size)):
            self._later.add(*(step.given for step in batch))
            self._chosen += batch
            if self.fits():
                self._back_to_the_first_that_fits(len(self._chosen) - len(batch) + 1)
                return True
            size *= 2
        return False

    def _steps(self) -> Iterator[_Step]:
        """Whom to take next; the accounts have got it back when the next one is asked for."""
        able = self._allowed()
        masks = [eligibility(self._table, demand).mask for demand in self._demands]
        mask: Mask = np.logical_or.reduce(masks)
        candidates = self._ground.lineup.candidates(self._asked, mask if able else None)
        taken = {given.run.id for eviction in self._ground.before for given in eviction.given}
        runs = [run for run in candidates if run.id not in taken]
        shares = Shares(self._books[0], {}, {})
        shrunk: dict[str, Given] = {}
        for run in (run for run in runs if surplus(run)):
            if reason := may_shrink(shares, self._asked, run):
                order = giving_order(self._table, run, self._wanted_most(run))
                step = _shrinking(self._table, run, order, surplus(run), reason)
                shrunk[run.id] = step.given
                self._credit(step.given)
                yield step
        for run in runs:
            if reason := may_stop(shares, self._asked, run):
                given = self._ending(run, shrunk.get(run.id))
                self._credit(given)
                yield _Step(given, reason)

    def _ending(self, run: Running, shrunk: Given | None) -> Given:
        """What it gives back by ending, beyond what it gives back by shrinking."""
        whole, holds = self._ground.snapshot.grants[run.id], total_of(run.demands)
        if shrunk is None:
            return Given(run, whole, holds, whole=True)
        rest = {name: amount - shrunk.amounts.get(name, 0) for name, amount in holds.items()}
        return Given(run, _less(whole, shrunk.grant), rest, whole=True)

    def _wanted_most(self, run: Running) -> list[int]:
        """Its rows, best first: where the one that asks gains most room for the fewest replicas given up."""
        own = {self._table.row[name]: number for name, number in own_replicas(run).items() if name in self._table.row}
        demand = max(self._demands, key=lambda demand: demand.count)
        able = eligibility(self._table, demand)
        before = self._later.room()
        after = before.copy(order="F")
        give_back(self._table, after, self._ground.snapshot.grants[run.id])
        gain = room_per_node(after, able, None, demand.count) - room_per_node(before, able, None, demand.count)
        return sorted(own, key=lambda row: (-(int(gain[row]) * _FINE // own[row]), -row))

    def _back_to_the_first_that_fits(self, low: int) -> None:
        """Give up again what was chosen beyond need; `low` is the least that could do. Bisects."""
        undone: list[_Step] = []
        high = len(self._chosen)
        while low < high:
            middle = (low + high) // 2
            while len(self._chosen) > middle:
                undone.append(self._undo(len(self._chosen) - 1))
            while len(self._chosen) < middle:
                self._choose(len(self._chosen), undone.pop())
            low, high = (low, middle) if self.fits() else (middle + 1, high)
        while len(self._chosen) > low:
            undone.append(self._undo(len(self._chosen) - 1))
        while len(self._chosen) < low:
            self._choose(len(self._chosen), undone.pop())

    # --- no more than needed --------------------------------------------------------------------------

    def reprieve(self) -> None:
        """Let everybody stay without whom it still fits, the most costly first."""
        stopped: set[str] = set()
        for number in reversed(range(len(self._chosen))):
            step = self._chosen[number]
            if step.given.run.id in stopped:  # it goes, so it does not matter that it was to shrink
                continue
            self._undo(number)
            if not (self.fits() and (not self._is_mine(step) or self.is_fair())):
                self._choose(number, step)
                stopped |= {step.given.run.id} if step.given.whole else set()

    def trim(self) -> None:
        """Let those that shrink keep as many replicas as they can."""
        stopped = {step.given.run.id for step in self._chosen if step.given.whole}
        for number, step in enumerate(self._chosen):
            if step.given.run.id not in stopped:
                low, high = 1, len(step.order[: surplus(step.given.run)])
                while low < high:
                    middle = (low + high) // 2
                    self._shrink(number, middle)
                    low, high = (low, middle) if self.fits() else (middle + 1, high)
                self._shrink(number, low)

    def is_fair(self) -> bool:
        """Whether each of those chosen may go with the others gone: by priority first, then by reclaim."""
        if all(step.given.run.queue == self._gang.queue for step in self._chosen):
            return True
        books = self._start.copy()
        shares = Shares(books, {}, {})
        reclaimed = [step.given for step in self._chosen if step.reason.startswith(BORROWED)]
        for step in self._chosen:
            given = step.given
            if not step.reason.startswith(BORROWED):
                if not (may_stop if given.whole else may_shrink)(shares, self._asked, given.run):
                    return False
                books.give_back(given.run.queue, given.run.user, given.amounts)
        losers = [(given.run.queue, given.run.user, given.amounts) for given in reclaimed]
        return reclaims(shares, self._gang.queue, self._asked.request, losers)

    def _is_mine(self, step: _Step) -> bool:
        """Whether it may matter to what the gang's own queue is entitled to that this one goes."""
        paths = self._books[0].tree.path
        mine, theirs = paths.get(self._gang.queue, ()), paths.get(step.given.run.queue, ())
        return len(mine) > 1 and len(theirs) > 1 and mine[-2] == theirs[-2]

    # --- choosing and undoing ---------------------------------------------------------------------------

    def _choose(self, number: int, step: _Step) -> None:
        self._chosen.insert(number, step)
        self._later.add(step.given)
        self._credit(step.given)

    def _undo(self, number: int) -> _Step:
        step = self._chosen.pop(number)
        self._later.add(step.given, sign=-1)
        self._credit(step.given, sign=-1)
        return step

    def _shrink(self, number: int, replicas: int) -> None:
        """By so many instead."""
        step = self._undo(number)
        self._choose(number, _shrinking(self._table, step.given.run, step.order, replicas, step.reason))

    def _credit(self, given: Given, sign: int = 1) -> None:
        run, jobs = given.run, int(given.whole)
        for books in self._books:
            change = books.give_back if sign > 0 else books.take
            change(run.queue, run.user, given.amounts, jobs=jobs)

    # --- what comes of it -------------------------------------------------------------------------------

    def outcome(self) -> Eviction | None:
        """The placement, and who goes for it."""
        found = place(self._later.room(), self._table, self._demands, None)
        if found is None:
            return None
        stopped = {step.given.run.id: step for step in self._chosen if step.given.whole}
        smaller_ones = [step for step in self._chosen if step.given.run.id not in stopped]
        beside = self._later.base.copy(order="F")
        take(self._table, beside, found.grant)
        return Eviction(
            gang=self._gang,
            placed=found,
            at=self._when(found.grant),
            beside=beside,
            preemptions=tuple(Preemption(job_id, self._gang.id, step.reason) for job_id, step in stopped.items()),
            resizes=tuple(step.resize(self._gang) for step in smaller_ones),
            given=tuple(step.given for step in self._chosen),
        )

    def _when(self, grant: Grant) -> int:
        """When those of its nodes are free that are not yet."""
        now, rows = self._ground.now, set(grant.rows.tolist())
        ends = [now + step.given.run.grace for step in self._chosen]
        ends += [
            now + given.run.grace if given.run.ends_by is None else max(given.run.ends_by, now)
            for given in _coming(self._ground)
            if not rows.isdisjoint(given.grant.rows.tolist())
        ]
        return max(ends, default=now)


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """One gang that goes or, if it has a `placement` to go on with, shrinks: by the first replicas of `order`."""

    given: Given
    reason: str
    order: Sequence[int] = ()
    placement: Placement | None = None

    def resize(self, taker: Pending) -> Resize:
        """For those that shrink."""
        assert self.placement is not None  # noqa: S101 - see above
        return Resize(self.given.run.id, self.placement, f"makes room for {taker.id}: {self.reason}")


def _shrinking(table: NodeTable, run: Running, order: Sequence[int], replicas: int, reason: str) -> _Step:
    less = smaller(table, run, order[:replicas])
    return _Step(Given(run, less.freed, less.amounts, whole=False), reason, order, less.placement)


class _Later:
    """What will be free for the gang once others have gone: beside each promise that it would run into."""

    def __init__(self, ground: Ground) -> None:
        self._table = ground.snapshot.table
        self._closed = ground.closed
        self.base = ground.free.copy(order="F")
        self._beside = [(promise.start, promise.free.copy(order="F")) for promise in ground.promises]

    def add(self, *given: Given, sign: int = 1) -> None:
        """Count these as gone, or (-1) as there again. Who ends before a promise is due is gone by then anyway."""
        for each in given:
            _change(self._table, self.base, each.grant, sign)
            for start, free in self._beside:
                if each.run.ends_by is None or each.run.ends_by > start:
                    _change(self._table, free, each.grant, sign)

    def remove(self, grant: Grant) -> None:
        """Count this as taken by somebody else."""
        take(self._table, self.base, grant)

    def room(self) -> Nodes:
        """int64[N, R], to be read only."""
        room = self.base
        for _, free in self._beside:
            room = lower(self._table, room, free)
        if self._closed is not None:
            room = room.copy(order="F")
            room[self._closed] = 0
            settle(self._table, room, np.flatnonzero(self._closed))
        return room


_FINE = 1_000
"""In what parts room for a replica is compared."""


def _coming(ground: Ground) -> Iterator[Given]:
    """What is given back already: by gangs that are being stopped or made smaller, and for others in this plan."""
    table, grants = ground.snapshot.table, ground.snapshot.grants
    for run in ground.lineup.going:
        if run.leaving:
            yield Given(run, grants[run.id], total_of(run.demands), whole=True)
        elif run.resize_to is not None:
            yield _shrinks(table, run, grants[run.id])
    for eviction in ground.before:
        yield from eviction.given


def _shrinks(table: NodeTable, run: Running, held: Grant) -> Given:
    """What a gang that is being resized does not keep of all that it holds until then."""
    assert run.resize_to is not None  # noqa: S101 - only those are asked
    kept = placed(run.demands, run.resize_to)
    keeps = total_of(kept)
    amounts = {name: amount - keeps.get(name, 0) for name, amount in total_of(run.demands).items()}
    return Given(run, _less(held, grant_of(table, kept, run.resize_to)), amounts, whole=False)


def _less(whole: Grant, part: Grant) -> Grant:
    """What is left of a grant without a part of it."""
    amounts = whole.amounts.copy()
    place = {row: number for number, row in enumerate(whole.rows.tolist())}
    for number, row in enumerate(part.rows.tolist()):
        amounts[place[row]] -= part.amounts[number]
    return Grant(whole.rows, amounts)


def _change(table: NodeTable, free: Nodes, grant: Grant, sign: int) -> None:
    (give_back if sign > 0 else take)(table, free, grant)
