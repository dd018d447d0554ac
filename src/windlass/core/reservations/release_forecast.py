"""Forecasts free capacity over time, with every running gang using its full walltime."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.gang import Demand, RunningGang
from windlass.core.model.snapshot import Amounts, Grant, NodeTable, Snapshot
from windlass.core.nodes.allocation import subtract_grant, update_shared_gpus
from windlass.core.nodes.incremental_fit import is_decided_by_counts, parts_needed
from windlass.core.nodes.node_filters import Mask
from windlass.core.placement.elastic_resizing import finish_resize
from windlass.core.placement.gang_placement import fits

NEVER: Final = 2**62
"""A time after every other, in ms: the end of a gang without a walltime."""

_FIRST_BATCH = 32


class TimedRelease(NamedTuple):
    """The latest time at which a gang releases its resources."""

    at: int
    grant: Grant


class EarlyRelease(NamedTuple):
    """A running gang releases a part of its resources at this time, and the rest at its end."""

    job_id: str
    at: int
    grant: Grant


class FutureCapacity(NamedTuple):
    """Free capacity from a time on."""

    at: int
    free: Amounts


def end_of(run: RunningGang) -> int:
    """Returns the latest end of a gang, in ms."""
    return NEVER if run.ends_by is None else run.ends_by


class ReleaseForecast:
    """Free capacity over time, computed on demand.

    Starts with `free` as it is now and advances through the ends of gangs; `free` itself does not change. `new`: gangs
    that start now. `early`: resources that a plan takes back from running gangs, besides current shrinking.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        now: int,
        free: Amounts,
        new: Iterable[TimedRelease] = (),
        *,
        early: Iterable[EarlyRelease] = (),
    ) -> None:
        self._table = snapshot.table
        self._now = FutureCapacity(now, free.copy(order="F"))
        self._chunks = _chunks_of(snapshot, now, new, early)
        self._batches: list[_Batch] = []

    def first_fit(self, demands: Sequence[Demand], closed: Mask | None = None) -> FutureCapacity | None:
        """Returns the time at which enough gangs have ended for this one to fit, if nothing else starts; None: never.

        Excludes the `closed` nodes (bool[N]; None: no node).

        The time is NEVER if it takes the end of gangs without a walltime; then `free` is the capacity after the end of
        all gangs with a walltime and, of the others, of the longest-running ones.
        """
        if fits(self._now.free, self._table, demands, closed):
            return self._now
        for batch in self._all():
            number = batch.first_fit(demands, closed)
            if number is not None:
                return FutureCapacity(batch.times[number - 1], batch.after(number))
        return None

    def free_at(self, moment: int) -> Amounts:
        """Returns int64[N, R], a copy: free capacity after every gang that ends by then."""
        last = None
        for batch in self._all():
            if batch.times[0] > moment:
                break
            last = batch
            if batch.times[-1] > moment:
                break
        return self._now.free.copy(order="F") if last is None else last.after(bisect_right(last.times, moment))

    def last_ends(self) -> NDArray[np.int64]:
        """Returns int64[N]: when the last gang leaves each node; 0 for an empty node, NEVER without a walltime."""
        found = np.zeros(len(self._table.nodes), dtype=np.int64)
        for batch in self._all():
            batch.mark(found)
        return found

    def moments(self, after: int) -> Iterator[int]:
        """Yields the distinct times after this one at which anything ends, NEVER last if anything has no end."""
        last = after
        for at in chain.from_iterable(batch.times for batch in self._all()):
            if at > last:
                last = at
                yield at

    def _all(self) -> Iterator[_Batch]:
        yield from self._batches
        while found := next(self._chunks, None):
            before = self._batches[-1].after_all() if self._batches else self._now.free
            self._batches.append(_Batch(self._table, before, found))
            yield self._batches[-1]


class _Chunk(NamedTuple):
    """Some ends, soonest first."""

    times: list[int]
    grants: list[Grant]


def _chunks_of(
    snapshot: Snapshot, now: int, new: Iterable[TimedRelease], early: Iterable[EarlyRelease]
) -> Iterator[_Chunk]:
    """Yields the latest ends of running and `new` gangs, soonest first, in ms and not before now.

    Gangs without a walltime come last, at NEVER, the longest-running first. Each chunk is twice as long as the one
    before: most gangs need few ends, and no query costs more than all of them together.
    """
    parts = [*_shrinking(snapshot, now), *early]
    starting = deque(sorted([*new, *(TimedRelease(part.at, part.grant) for part in parts)], key=lambda end: end.at))
    held = _without(snapshot.grants, parts)
    for part in _doubling(snapshot.walltime_ends):
        chunk = _Chunk([max(at, now) for at, _ in part], [held[job_id] for _, job_id in part])
        while starting and starting[0].at < chunk.times[-1]:
            at, grant = starting.popleft()
            place = bisect_right(chunk.times, at)
            chunk.times.insert(place, at)
            chunk.grants.insert(place, grant)
        yield chunk
    for rest in _doubling([*_until(starting, NEVER), *_endless(snapshot, held), *starting]):
        yield _Chunk([end.at for end in rest], [end.grant for end in rest])


def _until(starting: deque[TimedRelease], moment: int) -> Iterator[TimedRelease]:
    """Removes and yields the releases that end before."""
    while starting and starting[0].at < moment:
        yield starting.popleft()


def _shrinking(snapshot: Snapshot, now: int) -> Iterator[EarlyRelease]:
    """Yields the releases of gangs that are being shrunk."""
    for run in snapshot.elastic_or_stopping.values():
        if run.resize_to is not None and not run.stopping:
            at = min(run.release_time(now), max(end_of(run), now))
            yield EarlyRelease(run.id, at, finish_resize(snapshot.table, run, snapshot.grants[run.id]).freed)


def _without(grants: Mapping[str, Grant], parts: Sequence[EarlyRelease]) -> Mapping[str, Grant]:
    """Returns, by id, the grants that remain for the end of gangs after these early releases."""
    return {**grants, **{part.job_id: _rest(grants[part.job_id], part.grant) for part in parts}} if parts else grants


def _rest(whole: Grant, part: Grant) -> Grant:
    return Grant(whole.rows[:0], whole.amounts[:0]) if part is whole else subtract_grant(whole, part)


def _endless(snapshot: Snapshot, held: Mapping[str, Grant]) -> list[TimedRelease]:
    if len(snapshot.walltime_ends) == len(snapshot.running):
        return []
    found = [run for run in snapshot.running.values() if run.ends_by is None]
    found.sort(key=lambda run: (run.admitted_at, run.number, run.id))
    return [TimedRelease(NEVER, held[run.id]) for run in found]


_Thing = TypeVar("_Thing")


def _doubling(things: Sequence[_Thing]) -> Iterator[Sequence[_Thing]]:
    start, size = 0, _FIRST_BATCH
    while start < len(things):
        yield things[start : start + size]
        start, size = start + size, 2 * size


class _Batch:
    """Some ends in order, and the free capacity before the first of them."""

    def __init__(self, table: NodeTable, before: Amounts, found: _Chunk) -> None:
        self.before = before
        self.times = found.times
        self._table = table
        self._until = np.array([len(grant.rows) for grant in found.grants]).cumsum()
        self._rows = np.concatenate([grant.rows for grant in found.grants])
        self._amounts = np.concatenate([grant.amounts for grant in found.grants])

    def first_fit(self, demands: Sequence[Demand], closed: Mask | None) -> int | None:
        """Returns the number of ends, at least one, after which the gang fits; None: all are not enough."""
        if is_decided_by_counts(self._table, demands):
            given = Grant(self._rows, self._amounts)
            parts = parts_needed(self.before, self._table, demands[0], closed, given)
            return None if parts is None else int(self._until.searchsorted(parts)) + 1
        last = len(self.times)

        def enough(number: int) -> bool:
            return fits(self.after(number), self._table, demands, closed)

        return bisect_left(range(1, last), x=True, key=enough) + 1 if enough(last) else None

    def mark(self, last: NDArray[np.int64]) -> None:
        """Raises the times, by row, to those at which these gangs end there."""
        np.maximum.at(last, self._rows, np.repeat(self.times, np.diff(self._until, prepend=0)))

    def after_all(self) -> Amounts:
        """Returns the capacity after all ends; a copy."""
        return self.after(len(self.times))

    def after(self, gangs: int) -> Amounts:
        """Returns the capacity after the first `gangs` ends; a copy."""
        later = self.before.copy(order="F")
        until = self._until[gangs - 1] if gangs else 0
        np.add.at(later, self._rows[:until], self._amounts[:until])
        update_shared_gpus(self._table, later, self._rows[:until])
        return later
