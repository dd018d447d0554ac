"""What will be free, and when, if everything that runs uses its walltime in full."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from windlass.core.booking import settle
from windlass.core.feasibility import Mask
from windlass.core.gang import Demand
from windlass.core.placement import fits
from windlass.core.snapshot import Amounts, Grant, NodeTable, Snapshot

NEVER: Final = 2**62
"""A moment after every other, in ms: the end of a gang that has no walltime."""

_FIRST_BATCH = 32


class End(NamedTuple):
    """A gang gives back what it holds, at this moment at the latest."""

    at: int
    grant: Grant


class Moment(NamedTuple):
    """What is free from then on."""

    at: int
    free: Amounts


class Forecast:
    """Begins as `free` stands now and goes through the ends, as far as somebody asks. Nothing in it changes `free`."""

    def __init__(self, snapshot: Snapshot, now: int, free: Amounts, new: Iterable[End] = ()) -> None:
        self._table = snapshot.table
        self._now = Moment(now, free.copy(order="F"))
        self._free = self._now.free
        """Once all batches so far have ended."""
        self._coming = _batches(ends(snapshot, now, new))
        self._batches: list[_Batch] = []

    def first_fit(self, demands: Sequence[Demand], closed: Mask | None = None) -> Moment | None:
        """When enough gangs have ended to let this one in, or now, if nothing else starts; None if they never do.

        Outside the `closed` nodes (bool[N]; None: anywhere).

        At NEVER if it takes the end of gangs that have no walltime; then `free` is what is free once those with
        a walltime have ended and, of the others, the longest-running ones.
        """

        def enough(free: Amounts) -> bool:
            return fits(free, self._table, demands, closed)

        if enough(self._now.free):
            return self._now
        for batch in self._all():
            last = len(batch.times)
            if enough(batch.after(last)):
                number = bisect_left(range(1, last), x=True, key=lambda n: enough(batch.after(n))) + 1
                return Moment(batch.times[number - 1], batch.after(number))
        return None

    def free_at(self, moment: int) -> Amounts:
        """int64[N, R], a copy: once every gang that ends by then has ended."""
        last = None
        for batch in self._all():
            if batch.times[0] > moment:
                break
            last = batch
            if batch.times[-1] > moment:
                break
        return self._now.free.copy(order="F") if last is None else last.after(bisect_right(last.times, moment))

    def last_ends(self) -> NDArray[np.int64]:
        """int64[N]: when everybody will have left each node; 0 where nobody is, NEVER where one has no walltime."""
        found = np.zeros(len(self._table.nodes), dtype=np.int64)
        for batch in self._all():
            batch.mark(found)
        return found

    def moments(self, after: int) -> Iterator[int]:
        """The moments after this one at which anything ends, each once, NEVER last if anything has no end."""
        last = after
        for at in chain.from_iterable(batch.times for batch in self._all()):
            if at > last:
                last = at
                yield at

    def _all(self) -> Iterator[_Batch]:
        yield from self._batches
        while found := next(self._coming, None):
            batch = _Batch(self._table, self._free, found)
            self._batches.append(batch)
            self._free = batch.after(len(found))
            yield batch


def ends(snapshot: Snapshot, now: int, new: Iterable[End] = ()) -> Iterator[End]:
    """When each gang that runs, and each `new` one, ends at the latest, soonest first. In ms, none before now.

    Those without a walltime come last, at NEVER, those that have run longest first.
    """
    known: Iterator[End] = (End(max(at, now), snapshot.grants[job_id]) for at, job_id in snapshot.ends)
    starting = sorted(new, key=lambda end: end.at)
    if starting and starting[0].at < NEVER:
        known = merge(known, (end for end in starting if end.at < NEVER), key=lambda end: end.at)
    yield from known
    endless = [run for run in snapshot.running.values() if run.ends_by is None]
    for run in sorted(endless, key=lambda run: (run.admitted_at, run.number, run.id)):
        yield End(NEVER, snapshot.grants[run.id])
    yield from (end for end in starting if end.at >= NEVER)


def _batches(found: Iterator[End]) -> Iterator[Sequence[End]]:
    """Twice as many each time: most gangs need few ends, and none costs more than all of them together."""
    size = _FIRST_BATCH
    while batch := list(islice(found, size)):
        yield batch
        size *= 2


class _Batch:
    """Some ends in their order, and what was free before the first of them."""

    def __init__(self, table: NodeTable, before: Amounts, found: Sequence[End]) -> None:
        self.before = before
        self.times = [end.at for end in found]
        self._table = table
        self._until = np.cumsum([len(end.grant.rows) for end in found])
        self._rows = np.concatenate([end.grant.rows for end in found])
        self._amounts = np.concatenate([end.grant.amounts for end in found])

    def mark(self, last: NDArray[np.int64]) -> None:
        """Raise the moments, by row, to those at which these gangs end there."""
        np.maximum.at(last, self._rows, np.repeat(self.times, np.diff(self._until, prepend=0)))

    def after(self, gangs: int) -> Amounts:
        """Once the first `gangs` of them have ended; a copy."""
        later = self.before.copy(order="F")
        until = self._until[gangs - 1] if gangs else 0
        np.add.at(later, self._rows[:until], self._amounts[:until])
        settle(self._table, later, self._rows[:until])
        return later
