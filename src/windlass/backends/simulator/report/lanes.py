"""The vertical position of a gang in its node's row: each gang takes the first free lanes of the node's capacity."""

from __future__ import annotations

from bisect import insort
from typing import TypeAlias

Piece: TypeAlias = tuple[int, int]
"""(from, to) in thousandths of a device."""


class Lanes:
    """Free intervals of one node, in order, merged where they touch."""

    def __init__(self, capacity: int) -> None:
        self._free: list[Piece] = [(0, capacity)] if capacity else []

    def take(self, amount: int) -> list[Piece]:
        """Takes the first interval that is long enough, else the first intervals that suffice together."""
        for number, (low, high) in enumerate(self._free):
            if high - low >= amount:
                self._free[number : number + 1] = [(low + amount, high)] if high - low > amount else []
                return [(low, low + amount)]
        taken: list[Piece] = []
        while amount > 0 and self._free:
            low, high = self._free.pop(0)
            piece = low, min(high, low + amount)
            if piece[1] < high:
                self._free.insert(0, (piece[1], high))
            taken.append(piece)
            amount -= piece[1] - low
        return taken

    def give(self, pieces: list[Piece]) -> None:
        """Returns intervals to the free list."""
        for piece in pieces:
            insort(self._free, piece)
        joined: list[Piece] = []
        for low, high in self._free:
            if joined and joined[-1][1] == low:
                joined[-1] = joined[-1][0], high
            else:
                joined.append((low, high))
        self._free = joined
