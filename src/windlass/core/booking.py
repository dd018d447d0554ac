"""What a gang takes from the nodes it is on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from windlass.core.feasibility import vector
from windlass.core.gang import Demand
from windlass.core.snapshot import Amounts, NodeTable
from windlass.core.status import Placement


def parts(table: NodeTable, demands: Iterable[Demand], placement: Placement) -> Iterator[tuple[int, Amounts]]:
    """(row, int64[R]) for each node and role; nodes that are no longer in the table are left out."""
    for demand in demands:
        each = vector(table, demand.resources)
        for name, replicas in Counter(placement.nodes.get(demand.role, ())).items():
            row = table.row.get(name)
            if row is not None:
                yield row, each * replicas


def take(free: Amounts, table: NodeTable, demands: Iterable[Demand], placement: Placement) -> None:
    """The gang holds its part of `free` from now on."""
    for row, amounts in parts(table, demands, placement):
        free[row] -= amounts


def give_back(free: Amounts, table: NodeTable, demands: Iterable[Demand], placement: Placement) -> None:
    """The opposite."""
    for row, amounts in parts(table, demands, placement):
        free[row] += amounts
