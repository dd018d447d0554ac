"""What is free on the nodes that pass a screen, added up once for all the gangs that share it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windlass.core.feasibility import Eligibility, Mask, Screen, rooms
from windlass.core.snapshot import Amounts


@dataclass(frozen=True, slots=True, eq=False)
class Stock:
    """Of M eligible nodes, R resources; nothing below zero."""

    amounts: Amounts
    """int64[M, R]"""
    rows: Mask
    """bool[N]: which nodes these are."""
    total: tuple[int, ...]
    most: tuple[int, ...]
    """On any one node."""
    nodes: tuple[int, ...]
    """How many have any."""

    def rooms(self, able: Eligibility, most: int) -> list[Amounts]:
        """For each resource asked for, int64[M]: replicas that each node could take if that were the only one."""
        return rooms(able, self.amounts, most, self.rows)


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
        amounts=np.asfortranarray(amounts),
        rows=rows,
        total=tuple(amounts.sum(axis=0).tolist()),
        most=tuple(amounts.max(axis=0, initial=0).tolist()),
        nodes=tuple(np.count_nonzero(amounts, axis=0).tolist()),
    )


def binding(able: Eligibility, rooms: list[Amounts]) -> tuple[int, int]:
    """(column, amount) of the resource that alone would let the fewest replicas in; the scarcer kind among equals."""
    if len(able.request) < 2:
        return able.request[0] if able.request else (0, 0)
    in_all = [int(np.add.reduce(room)) for room in rooms]
    return able.request[in_all.index(min(in_all))]
