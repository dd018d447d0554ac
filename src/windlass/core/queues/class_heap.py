"""The first gangs of several lines, by turn."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.gang import EquivalenceClass, PendingGang, Turn

NO_WALLTIME = -1
"""No walltime is so short."""

_Entry: TypeAlias = tuple[Turn, int, EquivalenceClass, int | None]
"""Turn and place of a line's head, the line, and the bound on the walltimes that it has been given."""

_NEVER_ENDS = np.iinfo(np.int64).max


class NextGang(NamedTuple):
    """A gang at the head of its line."""

    gang: PendingGang
    turn: Turn


class ClassHeap:
    """One heap over the lines. `fill`: by the order in which gangs fill gaps.

    Most plans ask few lines, for which a heap is best. Once an eighth of them are through, all the others are sorted:
    it is likely that these are asked too, and the next of a sorted list is there without a comparison.
    """

    def __init__(self, lines: Iterable[EquivalenceClass], *, fill: bool) -> None:
        self._fill = fill
        self._heap: list[_Entry] = [((line.fill_turns if fill else line.turns)[0], 0, line, None) for line in lines]
        heapify(self._heap)
        self._sorted: list[_Entry] = []
        """Those that the heap has no longer, the first of them last."""
        self._few = len(self._heap) - len(self._heap) // 8
        self._top = self._heap[0] if self._heap else None

    def first(self) -> NextGang | None:
        """Whose turn it is; None: nobody is left."""
        if self._top is None:
            return None
        turn, place, line, _ = self._top
        return NextGang((line.fill if self._fill else line.gangs)[place], turn)

    @property
    def line(self) -> EquivalenceClass:
        """Of the first."""
        return self._winner()[2]

    def pass_on(self, longest: int | None) -> None:
        """The first has had its turn; of its line, those go on that last no longer than `longest` ms (None: all)."""
        top = self._winner()
        _, place, line, bound = top
        if bound is None or (longest is not None and longest < bound):
            bound = longest
        place = _next(line, place + 1, bound, fill=self._fill)
        if place < len(line.gangs):
            turn = (line.fill_turns if self._fill else line.turns)[place]
            self._replace(top, (turn, place, line, bound))
        else:
            self._leave(top)
        self._top = self._find_top()

    def _winner(self) -> _Entry:
        assert self._top is not None, "nobody is left"  # noqa: S101 - asked for after `first` alone
        return self._top

    def _replace(self, top: _Entry, by: _Entry) -> None:
        if self._sorted and top is self._sorted[-1]:
            self._sorted.pop()
            heappush(self._heap, by)
        else:
            heapreplace(self._heap, by)

    def _leave(self, top: _Entry) -> None:
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


def _next(line: EquivalenceClass, place: int, longest: int | None, *, fill: bool) -> int:
    """The first place from this one on whose gang lasts no longer; the line's length if there is none."""
    if longest is None or place >= len(line.gangs):
        return place
    if longest == NO_WALLTIME:
        return len(line.gangs)
    short = _walltimes(line, fill=fill)[place:] <= longest
    first = int(short.argmax())
    return place + first if short[first] else len(line.gangs)


@lru_cache(maxsize=1024)
def _walltimes(line: EquivalenceClass, *, fill: bool) -> NDArray[np.int64]:
    """int64[n]: of the gangs of a line, in ms; kept, because few lines change from one plan to the next."""
    gangs = line.fill if fill else line.gangs
    return np.array([_NEVER_ENDS if gang.walltime is None else gang.walltime for gang in gangs], dtype=np.int64)
