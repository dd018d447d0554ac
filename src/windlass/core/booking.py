"""What a gang takes from the nodes it is on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from windlass.core.gang import Demand
from windlass.core.resources import MAX_AMOUNT
from windlass.core.snapshot import Amounts, Grant, NodeTable
from windlass.core.status import Placement


def grant_of(table: NodeTable, demands: Iterable[Demand], placement: Placement) -> Grant:
    """What a gang so placed holds; nodes that are no longer in the table are left out."""
    held: dict[int, list[int]] = {}
    for demand in demands:
        each = [min(demand.resources.get(name, 0), MAX_AMOUNT) for name in table.axis]
        for name, replicas in Counter(placement.nodes.get(demand.role, ())).items():
            row = table.row.get(name)
            if row is not None:
                amounts = [amount * replicas for amount in each]
                held[row] = [a + b for a, b in zip(held[row], amounts, strict=True)] if row in held else amounts
    rows = np.array(list(held), dtype=np.intp)
    return Grant(rows, np.array(list(held.values()), dtype=np.int64).reshape(len(held), len(table.axis)))


def take(table: NodeTable, free: Amounts, grant: Grant) -> None:
    """The gang holds its part of `free`, an array of this table, from now on."""
    free[grant.rows] -= grant.amounts


def give_back(table: NodeTable, free: Amounts, grant: Grant) -> None:
    """The opposite."""
    free[grant.rows] += grant.amounts
