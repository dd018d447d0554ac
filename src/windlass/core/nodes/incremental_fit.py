"""Room for equal replicas as gangs release nodes one after the other: computed in one pass, not once per gang."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.gang import Demand
from windlass.core.model.snapshot import Amounts, Grant, NodeTable
from windlass.core.nodes.feasibility import Counts, eligibility, room_per_node
from windlass.core.nodes.node_filters import Mask


def is_decided_by_counts(table: NodeTable, demands: Sequence[Demand]) -> bool:
    """Tells whether the gang fits as soon as enough of its replicas fit somewhere, one by one."""
    first = demands[0]
    anywhere = first.topology is None and not first.whole_node and len(first.gpu_types) < 2
    return len(demands) == 1 and anywhere and table.devices is None


def parts_needed(free: Amounts, table: NodeTable, demand: Demand, closed: Mask | None, given: Grant) -> int | None:
    """Returns how many parts of `given`, in their order, are needed until all replicas fit; None: all do not suffice.

    `free` is the free capacity before. A node may be in several parts. Only for gangs for which `is_decided_by_counts`.
    """
    able, wanted = eligibility(table, demand), demand.count
    counts = room_per_node(free, able, closed, wanted)
    missing = wanted - int(counts.sum())
    if missing <= 0:
        return 0
    mask = able.mask if closed is None else able.mask & ~closed
    ours = mask[given.rows].nonzero()[0]
    if not len(ours):
        return None
    # 1. group by node, each node's parts in their order
    by_node = ours[given.rows[ours].argsort(kind="stable")]
    rows = given.rows[by_node]
    begins = np.empty(len(rows), dtype=np.bool_)
    begins[0] = True
    np.not_equal(rows[1:], rows[:-1], out=begins[1:])
    room = np.full(len(rows), min(wanted, able.per_node))
    for column, amount in able.request:
        np.minimum(
            room, (free[rows, column] + _running_sum(given.amounts[by_node, column], begins)) // amount, out=room
        )
    # 2. the room that each part adds, in the order of the parts
    before = np.empty_like(room)
    before[1:] = room[:-1]
    before[begins] = counts[rows[begins]]
    gained = np.zeros(len(given.rows), dtype=np.int64)
    gained[by_node] = np.maximum(room, 0) - np.maximum(before, 0)
    enough = gained.cumsum() >= missing
    part = int(enough.argmax())
    return part + 1 if enough[part] else None


def _running_sum(amounts: NDArray[np.int64], begins: NDArray[np.bool_]) -> Counts:
    """Returns int64[K]: the running sum, which restarts at each position where `begins` is true."""
    total = amounts.cumsum()
    firsts = begins.nonzero()[0]
    total -= (total[firsts] - amounts[firsts])[begins.cumsum() - 1]
    return total
