"""What is free on the nodes that pass a screen, added up once for all the gangs that share it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windlass.core.feasibility import Eligibility, Mask, Screen, rooms
from windlass.core.snapshot import Amounts


@dataclass(frozen=True, slots=True, eq=False)
class Stock:
    """Of M eligible nodes, R resources; nothing below zero."""

    columns: tuple[Amounts, ...]
    """By resource, int64[M]."""
    rows: Mask
    """bool[N]: which nodes these are."""
    total: tuple[int, ...]
    most: tuple[int, ...]
    """On any one node."""
    nodes: tuple[int, ...]
    """How many have any."""

    def rooms(self, able: Eligibility, most: int) -> Amounts:
        """int64[K, M]: replicas that each node could take if each of the K resources asked for were the only one.

        At most `most`. Whoever asks for nothing has one row for it.
        """
        if able.devices is not None or able.capacity is not None or not able.request:
            return np.array(rooms(able, np.column_stack(self.columns), most, self.rows))
        found = np.empty((len(able.request), len(self.columns[0])), dtype=np.int64)
        for place, (column, amount) in enumerate(able.request):
            np.floor_divide(self.columns[column], amount, out=found[place])
        return np.minimum(found, most, out=found)


class Stocks:
    """By screen, of one state of the nodes; `free` must not change any more."""

    def __init__(self, free: Amounts) -> None:
        self.free = free
        self._found: dict[tuple[Screen, bool], Stock] = {}

    def of(self, able: Eligibility) -> Stock:
        """The stock of the eligible nodes; for whoever wants nodes to himself, what is in use has nothing."""
        key = able.screen, able.capacity is not None
        if key not in self._found:
            amounts = np.maximum(self.free[able.mask], 0)
            if able.capacity is not None:
                amounts[np.any(amounts < able.capacity[able.mask], axis=1)] = 0
            self._found[key] = _stock(amounts, able.mask)
        return self._found[key]


def _stock(amounts: Amounts, rows: Mask) -> Stock:
    return Stock(
        columns=tuple(np.ascontiguousarray(amounts.T)),
        rows=rows,
        total=tuple(amounts.sum(axis=0).tolist()),
        most=tuple(amounts.max(axis=0, initial=0).tolist()),
        nodes=tuple(np.count_nonzero(amounts, axis=0).tolist()),
    )


def binding(able: Eligibility, rooms: Amounts) -> tuple[int, int]:
    """(column, amount) of the resource that alone would let the fewest replicas in; the scarcer kind among equals."""
    if len(able.request) < 2:
        return able.request[0] if able.request else (0, 0)
    return able.request[int(np.add.reduce(rooms, axis=1).argmin())]
