"""Heap of equivalence classes, sorted by their next gang. `queue_order` takes the next gang of a queue from it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.gang import EquivalenceClass, PendingGang, SortKey

NO_WALLTIME = -1
"""Bound on the walltime that no gang meets."""

_Entry: TypeAlias = tuple[SortKey, int, EquivalenceClass, int | None]
"""Sort key and position of a class's next gang, the class, and the bound on the walltimes of its remaining gangs."""

_NEVER_ENDS = np.iinfo(np.int64).max


class NextGang(NamedTuple):
    """The next gang of a class."""

    gang: PendingGang
    sort_key: SortKey


class ClassHeap:
    """One heap over the classes. `backfill`: by the order of backfilling.

    Most plans ask few classes, for which a heap is fastest. Once an eighth of them is exhausted, all others are sorted:
    these will probably be asked too, and the next entry of a sorted list needs no comparison.
    """

    def __init__(self, classes: Iterable[EquivalenceClass], *, backfill: bool) -> None:
        self._backfill = backfill
        self._heap: list[_Entry] = [
            ((each.backfill_sort_keys if backfill else each.sort_keys)[0], 0, each, None) for each in classes
        ]
        heapify(self._heap)
        self._sorted: list[_Entry] = []
        """Entries that have left the heap, in descending order."""
        self._few = len(self._heap) - len(self._heap) // 8
        self._top = self._heap[0] if self._heap else None

    def first(self) -> NextGang | None:
        """Returns the next gang; None: no gang is left."""
        if self._top is None:
            return None
        key, place, eq_class, _ = self._top
        return NextGang((eq_class.backfill if self._backfill else eq_class.gangs)[place], key)

    @property
    def eq_class(self) -> EquivalenceClass:
        """The class of the next gang."""
        return self._winner()[2]

    def advance(self, longest: int | None) -> None:
        """Passes over the next gang; of its class, only gangs with a walltime up to `longest` ms remain (None: all)."""
        top = self._winner()
        _, place, eq_class, bound = top
        if bound is None or (longest is not None and longest < bound):
            bound = longest
        place = _next(eq_class, place + 1, bound, backfill=self._backfill)
        if place < len(eq_class.gangs):
            key = (eq_class.backfill_sort_keys if self._backfill else eq_class.sort_keys)[place]
            self._replace(top, (key, place, eq_class, bound))
        else:
            self._remove(top)
        self._top = self._find_top()

    def _winner(self) -> _Entry:
        assert self._top is not None, "no gang is left"  # noqa: S101 - called after `first` only
        return self._top

    def _replace(self, top: _Entry, by: _Entry) -> None:
        if self._sorted and top is self._sorted[-1]:
            self._sorted.pop()
            heappush(self._heap, by)
        else:
            heapreplace(self._heap, by)

    def _remove(self, top: _Entry) -> None:
        if self._sorted and top is self._sorted[-1]:
            self._sorted.pop()
            return
        heappop(self._heap)
        if not self._sorted and len(self._heap) == self._few:
            self._sorted, self._heap = sorted(self._heap, reverse=True), []

    def _find_top(self) -> _Entry | None:
        if not self._sorted:
            return self._heap[0] if self._heap else None
        last = self._sorted[-1]
        return self._heap[0] if self._heap and self._heap[0] < last else last


def _next(eq_class: EquivalenceClass, place: int, longest: int | None, *, backfill: bool) -> int:
    """Returns the first position from `place` on with a walltime up to `longest`; the class's length if none."""
    if longest is None or place >= len(eq_class.gangs):
        return place
    if longest == NO_WALLTIME:
        return len(eq_class.gangs)
    short = _walltimes(eq_class, backfill=backfill)[place:] <= longest
    first = int(short.argmax())
    return place + first if short[first] else len(eq_class.gangs)


@lru_cache(maxsize=1024)
def _walltimes(eq_class: EquivalenceClass, *, backfill: bool) -> NDArray[np.int64]:
    """int64[n]: walltimes of a class's gangs, in ms; cached, because few classes change from one plan to the next."""
    gangs = eq_class.backfill if backfill else eq_class.gangs
    return np.array([_NEVER_ENDS if gang.walltime is None else gang.walltime for gang in gangs], dtype=np.int64)
