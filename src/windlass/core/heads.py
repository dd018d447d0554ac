"""The first gangs of several lines, by turn."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from windlass.core.gang import Line, Pending, Turn

NOBODY = -1
"""No walltime is so short."""

_NEVER_ENDS = np.iinfo(np.int64).max


class Head(NamedTuple):
    """A gang at the head of its line."""

    gang: Pending
    turn: Turn


class Heads:
    """One heap over the lines. `fill`: by the order in which gangs fill gaps."""

    def __init__(self, lines: Iterable[Line], *, fill: bool) -> None:
        self._fill = fill
        self._heap: list[tuple[Turn, int, Line, int | None]] = [
            ((line.fill_turns if fill else line.turns)[0], 0, line, None) for line in lines
        ]
        """Turn and place of each line's head, and the bound on the walltimes that it has been given."""
        heapify(self._heap)

    def first(self) -> Head | None:
        """Whose turn it is; None: nobody is left."""
        if not self._heap:
            return None
        turn, place, line, _ = self._heap[0]
        return Head((line.fill if self._fill else line.gangs)[place], turn)

    @property
    def line(self) -> Line:
        """Of the first."""
        return self._heap[0][2]

    def pass_on(self, longest: int | None) -> None:
        """The first has had its turn; of its line, those go on that last no longer than `longest` ms (None: all)."""
        _, place, line, bound = self._heap[0]
        if bound is None or (longest is not None and longest < bound):
            bound = longest
        place = _next(line, place + 1, bound, fill=self._fill)
        if place < len(line.gangs):
            turn = (line.fill_turns if self._fill else line.turns)[place]
            heapreplace(self._heap, (turn, place, line, bound))
        else:
            heappop(self._heap)


def _next(line: Line, place: int, longest: int | None, *, fill: bool) -> int:
    """The first place from this one on whose gang lasts no longer; the line's length if there is none."""
    if longest is None or place >= len(line.gangs):
        return place
    if longest == NOBODY:
        return len(line.gangs)
    short = _walltimes(line, fill=fill)[place:] <= longest
    first = int(short.argmax())
    return place + first if short[first] else len(line.gangs)


@lru_cache(maxsize=1024)
def _walltimes(line: Line, *, fill: bool) -> NDArray[np.int64]:
    """int64[n]: of the gangs of a line, in ms; kept, because few lines change from one plan to the next."""
    gangs = line.fill if fill else line.gangs
    return np.array([_NEVER_ENDS if gang.walltime is None else gang.walltime for gang in gangs], dtype=np.int64)
