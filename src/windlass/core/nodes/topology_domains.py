"""Domains of the topology levels: each is one contiguous range of a node table's rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.snapshot import NodeTable
from windlass.core.nodes.node_filters import cache_answer

Bounds = NDArray[np.intp]
"""int[D + 1]: first row of each of D domains, and the end of the last one."""


class Span(NamedTuple):
    """Rows from `start` up to, not including, `stop`."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """One level of the topology, with D domains in the order of rows."""

    name: str
    bounds: Bounds
    has_name: NDArray[np.bool_]
    """bool[D]: False for a domain of nodes whose place names no domain at this level."""


def levels_of(table: NodeTable) -> tuple[Level, ...]:
    """Returns the table's levels, widest first."""
    found: tuple[Level, ...] | None = table.derived.get("levels")
    if found is None:
        found = cache_answer(
            table, "levels", tuple(_level(table, number) for number in range(len(table.topology.levels)))
        )
    return found


def level_number(table: NodeTable, name: str) -> int | None:
    """Returns the index of the level with this name; None: the cluster does not declare it."""
    names = table.topology.levels
    return names.index(name) if name in names else None


def domain_name(table: NodeTable, level: int, row: int) -> str:
    """Returns the name of a row's domain: the places from the widest level on, "b1/r3"."""
    return "/".join(table.nodes[row].place[: level + 1])


def _level(table: NodeTable, number: int) -> Level:
    starts = np.flatnonzero(np.diff(table.domains[:, number], prepend=-1))
    places = [table.nodes[row].place[number : number + 1] for row in starts.tolist()]
    return Level(
        name=table.topology.levels[number],
        bounds=np.append(starts, len(table.nodes)),
        has_name=np.array([any(place) for place in places], dtype=np.bool_),
    )
