"""Arithmetic on grants (`core.model.snapshot.Grant`): compute, add, subtract, and apply to free amounts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.devices import derive_resources
from windlass.core.model.gang import Demand
from windlass.core.model.resources import MAX_AMOUNT
from windlass.core.model.snapshot import Amounts, Grant, NodeTable
from windlass.core.model.status import Placement
from windlass.core.nodes.device_assignment import held_devices


def compute_grant(table: NodeTable, demands: Iterable[Demand], placement: Placement) -> Grant:
    """Returns the amounts that a gang holds under a placement; nodes that are no longer in the table are left out.

    A gang that another scheduler places holds nothing: its backend counts its members as usage by others.
    """
    held: dict[int, list[int]] = {}
    for demand in (each for each in demands if not each.placed_by):
        each = [min(demand.resources.get(name, 0), MAX_AMOUNT) for name in table.resource_names]
        names = placement.nodes.get(demand.role, ())
        for name, replicas in Counter(names).items():
            row = table.row.get(name)
            if row is not None:
                whole = demand.whole_node
                amounts = table.capacity[row].tolist() if whole else [amount * replicas for amount in each]
                held[row] = [a + b for a, b in zip(held[row], amounts, strict=True)] if row in held else amounts
        if table.devices is not None and not demand.whole_node:
            for row, column, amount in held_devices(table, demand, names, placement.devices.get(demand.role, ())):
                held[row][column] += amount
    rows = np.array(list(held), dtype=np.intp)
    return Grant(rows, np.array(list(held.values()), dtype=np.int64).reshape(len(held), len(table.resource_names)))


def sum_grants(grants: Sequence[Grant]) -> Grant:
    """Returns the sum of several grants."""
    if len(grants) == 1:
        return grants[0]
    rows, place = np.unique(np.concatenate([grant.rows for grant in grants]), return_inverse=True)
    amounts = np.zeros((len(rows), grants[0].amounts.shape[1]), dtype=np.int64)
    np.add.at(amounts, place.reshape(-1), np.concatenate([grant.amounts for grant in grants]))
    return Grant(rows, amounts)


def subtract_grant(whole: Grant, part: Grant) -> Grant:
    """Returns a grant minus a part of it."""
    amounts = whole.amounts.copy()
    place = {row: number for number, row in enumerate(whole.rows.tolist())}
    for number, row in enumerate(part.rows.tolist()):
        amounts[place[row]] -= part.amounts[number]
    return Grant(whole.rows, amounts)


def allocate_grant(table: NodeTable, free: Amounts, grant: Grant) -> None:
    """Subtracts a grant from `free`, an array of this table, in place."""
    if len(grant.rows) == 1:  # most gangs are on one node, and this is several times as fast
        free[grant.rows[0]] -= grant.amounts[0]
    else:
        free[grant.rows] -= grant.amounts
    update_shared_gpus(table, free, grant.rows)


def release_grant(table: NodeTable, free: Amounts, grant: Grant) -> None:
    """Adds a grant to `free`, an array of this table, in place."""
    if len(grant.rows) == 1:
        free[grant.rows[0]] += grant.amounts[0]
    else:
        free[grant.rows] += grant.amounts
    update_shared_gpus(table, free, grant.rows)


def update_shared_gpus(table: NodeTable, free: Amounts, rows: NDArray[np.intp]) -> None:
    """Derives the amounts of shared GPUs again, in rows of `free` in which grants were added or subtracted.

    `allocate_grant` and `release_grant` call it; code that changes `free` directly must call it, too.
    """
    if table.devices is not None:
        derive_resources(table.devices, free, rows)


def minimum_free(table: NodeTable, one: Amounts, other: Amounts) -> Amounts:
    """Returns the smaller of two free amounts by node and column; of shared GPUs, the parts that are free in both."""
    both = np.minimum(one, other)
    devices = table.devices
    if devices is not None:
        by_mig = np.flatnonzero(devices.geometry >= 0)
        slices = one[by_mig, devices.columns] & other[by_mig, devices.columns]
        both[by_mig, devices.columns] = np.where(both[by_mig, devices.columns] < 0, 0, slices)
        derive_resources(devices, both, np.arange(len(both)))
    return both
