"""What is free on the nodes that pass a screen, added up once for all the gangs that share it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windlass.core.feasibility import Eligibility, Screen
from windlass.core.snapshot import Amounts


@dataclass(frozen=True, slots=True, eq=False)
class Stock:
    """Of M eligible nodes, R resources; nothing below zero."""

    amounts: Amounts
    """int64[M, R]"""
    total: tuple[int, ...]
    most: tuple[int, ...]
    """On any one node."""
    nodes: tuple[int, ...]
    """How many have any."""

    def rooms(self, able: Eligibility, most: int) -> list[Amounts]:
        """For each resource asked for, int64[M]: replicas that each node could take if that were the only one."""
        if not able.request:
            return [np.full(len(self.amounts), most)]
        return [np.minimum(self.amounts[:, column] // amount, most) for column, amount in able.request]


class Stocks:
    """By screen, of one state of the nodes; `free` must not change any more."""

    def __init__(self, free: Amounts) -> None:
        self.free = free
        self._found: dict[Screen, Stock] = {}

    def of(self, screen: Screen) -> Stock:
        """The stock of the nodes that pass the screen."""
        if screen not in self._found:
            self._found[screen] = _stock(np.maximum(self.free[screen.mask], 0))
        return self._found[screen]


def _stock(amounts: Amounts) -> Stock:
    return Stock(
        amounts=np.asfortranarray(amounts),
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
