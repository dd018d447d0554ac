"""Whose turn it is, by the policy's order (`core.policy`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from heapq import heapify, heappop, heapreplace
from typing import overload

from windlass.core.gang import Line, Pending, Turn


class Contest:
    """Yields gangs by their turn. A line that is dropped yields no more: equals would get the same answer.

    A turn of a thousand equal gangs so costs as much as one of a single gang.
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        self._heads: list[tuple[Turn, int, Line]] = [(line.turns[0], 0, line) for line in lines]
        heapify(self._heads)
        self._dropped = False

    def __iter__(self) -> Iterator[Pending]:
        while self._heads:
            _, place, line = self._heads[0]
            self._dropped = False
            yield line.gangs[place]
            if self._dropped or place + 1 == len(line.gangs):
                heappop(self._heads)
            else:
                heapreplace(self._heads, (line.turns[place + 1], place + 1, line))

    def drop(self) -> None:
        """Leave out the rest of the line whose gang was yielded last."""
        self._dropped = True


class Order(Sequence[str]):
    """Ids of gangs by their turn, sorted when somebody looks."""

    def __init__(self, groups: Callable[[], Iterable[Sequence[Pending]]], turn: Callable[[Pending], Turn]) -> None:
        self._groups = groups
        self._turn = turn

    @cached_property
    def _ids(self) -> tuple[str, ...]:
        gangs = (gang for group in self._groups() for gang in group)
        return tuple(gang.id for gang in sorted(gangs, key=self._turn))

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._ids[index]

    def __len__(self) -> int:
        return len(self._ids)
