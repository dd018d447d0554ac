"""Where a gang goes: all of it or none, on as few nodes as can be, and the tightest of those.

Counts first: how many replicas each node could take, by integer division. For equal members that is exact, since a
placement exists if and only if the counts add up. Several roles are placed one after the other on a trial copy, in
several orders; then in rounds, a replica of each role at a time. That is a heuristic: vector bin packing is NP-hard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, permutations
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from windlass.core.booking import grant_of
from windlass.core.feasibility import Eligibility, Mask, Request, eligibility
from windlass.core.gang import Demand, total_of
from windlass.core.snapshot import Amounts, Grant, NodeTable
from windlass.core.status import Placement
from windlass.core.topology import Choice, candidates, choose

Counts: TypeAlias = NDArray[np.int64]
Seats: TypeAlias = list[tuple[int, int]]
"""(row, replicas), by row."""

_ORDERS_TRIED = 24
"""How many orders of the roles are tried, one role after the other."""
_MOST_IN_ROUNDS = 256
"""Replicas that are placed one by one: each costs a look at all nodes."""


def replicas_per_node(free: Amounts, request: Request, mask: Mask, most: int) -> Counts:
    """int64[N]: how many replicas find room on each node now, at most `most`; none outside the mask."""
    counts = mask * np.int64(most)
    for column, amount in request:
        np.minimum(counts, free[:, column] // amount, out=counts)
    return np.maximum(counts, 0, out=counts)  # a node may have less than nothing left after it shrank


class Placed(NamedTuple):
    """Where a gang would go, and what it would hold there; `booking.take` takes it."""

    placement: Placement
    grant: Grant


def place(free: Amounts, table: NodeTable, demands: Sequence[Demand], closed: Mask | None) -> Placed | None:
    """Find room for every replica of every role outside the `closed` nodes. None: not all of them fit.

    `free` stays as it is.
    """
    trial = free if len(demands) == 1 else free.copy(order="F")
    seats = _find(trial, table, demands, closed)
    if seats is None:
        return None
    placement = _placement(table, demands, seats)
    return Placed(placement, grant_of(table, demands, placement))


def fits(free: Amounts, table: NodeTable, demands: Sequence[Demand]) -> bool:
    """Whether `place` would find room; `free` stays as it was."""
    if len(demands) == 1:
        demand, able = demands[0], eligibility(table, demands[0])
        counts = _counts(free, able, None, demand.count)
        if demand.topology is not None:
            return choose(counts, able.mask, table, demand.count, demand.topology) is not None
        return int(counts.sum()) >= demand.count
    return _find(free.copy(order="F"), table, demands, None) is not None


def _find(free: Amounts, table: NodeTable, demands: Sequence[Demand], closed: Mask | None) -> dict[str, Seats] | None:
    for bounds in _bounds(free, table, demands, closed):
        for order in orders(table, demands):
            if seats := _seat_all(free, table, order, bounds):
                return seats
        if len(demands) > 1 and (seats := _seat_in_rounds(free, table, demands, bounds)):
            return seats
    return None


def _bounds(free: Amounts, table: NodeTable, demands: Sequence[Demand], closed: Mask | None) -> Iterator[Mask | None]:
    """What is closed to the gang, one domain after the other if all its roles are to be in one."""
    near = demands[0].topology
    if near is None or len(demands) == 1:
        yield closed
        return
    roles = [(_counts(free, eligibility(table, d), closed, d.count), d.count) for d in demands]
    total = total_of(tuple(demands))
    resources = [(np.maximum(free[:, column], 0), total.get(name, 0)) for column, name in enumerate(table.axis)]
    for start, stop in candidates(roles, resources, table, near):
        outside = np.ones(len(table.nodes), dtype=np.bool_)
        outside[start:stop] = False if closed is None else closed[start:stop]
        yield outside


def _counts(free: Amounts, able: Eligibility, closed: Mask | None, most: int) -> Counts:
    mask = able.mask if closed is None else able.mask & ~closed
    return replicas_per_node(free, able.request, mask, most)


def orders(table: NodeTable, demands: Sequence[Demand]) -> Iterator[Sequence[Demand]]:
    """Hardest role first: fewest eligible nodes, then most of the scarcest resource; then other orders."""
    if len(demands) == 1:
        return iter((demands,))
    hardest_first = sorted(demands, key=lambda demand: _ease(table, demand))
    return islice(permutations(hardest_first), _ORDERS_TRIED)


def _ease(table: NodeTable, demand: Demand) -> tuple[object, ...]:
    able = eligibility(table, demand)
    asked = dict(able.request)
    return able.screen.eligible, [-asked.get(column, 0) for column in range(len(table.axis))], demand.role


def _seat_all(
    free: Amounts, table: NodeTable, demands: Sequence[Demand], closed: Mask | None
) -> dict[str, Seats] | None:
    """Roles in this order; what was taken is given back if one of them does not fit. The last one takes nothing."""
    taken: list[tuple[Request, Seats]] = []
    seats: dict[str, Seats] = {}
    for demand in demands:
        able = eligibility(table, demand)
        found = _seat_role(free, table, demand, closed)
        if found is None:
            for request, before in taken:
                _take(free, request, before, -1)
            return None
        seats[demand.role] = found
        if len(seats) < len(demands):
            _take(free, able.request, found, 1)
            taken.append((able.request, found))
    return seats


def _seat_role(free: Amounts, table: NodeTable, demand: Demand, closed: Mask | None) -> Seats | None:
    """All replicas of one role, in the domains it asks for."""
    able = eligibility(table, demand)
    counts = _counts(free, able, closed, demand.count)
    if demand.topology is None:
        return seat(free, able.request, counts, demand.count)
    choice = choose(counts, able.mask, table, demand.count, demand.topology)
    return None if choice is None else _seat_parts(free, able.request, choice)


def _seat_parts(free: Amounts, request: Request, choice: Choice) -> Seats:
    """What each part is to take: all that it has room for, or a choice among its nodes."""
    starts, stops, numbers = choice.parts.T
    room = np.add.reduceat(np.append(choice.counts, 0), choice.parts[:, :2].ravel())[::2]
    edges = np.zeros(len(choice.counts) + 1, dtype=np.int64)
    edges[starts[room == numbers]] += 1
    edges[stops[room == numbers]] -= 1
    full = np.flatnonzero(edges[:-1].cumsum() * choice.counts)
    seats = list(zip(full.tolist(), choice.counts[full].tolist(), strict=True))
    for start, stop, number in choice.parts[room > numbers].tolist():
        inside = seat(free[start:stop], request, choice.counts[start:stop], number) or ()
        seats += [(start + row, replicas) for row, replicas in inside]
    return sorted(seats)


def _seat_in_rounds(
    free: Amounts, table: NodeTable, demands: Sequence[Demand], closed: Mask | None
) -> dict[str, Seats] | None:
    """A replica of each role in turn, so that roles which want different resources share nodes evenly."""
    near = demands[0].topology
    by_numbers = near is not None and (near.spread or near.slice > 0)
    if by_numbers or sum(demand.count for demand in demands) > _MOST_IN_ROUNDS:
        return None
    trial = free.copy(order="F")
    found: dict[str, Counter[int]] = {demand.role: Counter() for demand in demands}
    hardest_first = sorted(demands, key=lambda demand: _ease(table, demand))
    for round_number in range(max(demand.count for demand in demands)):
        for demand in hardest_first:
            if round_number >= demand.count:
                continue
            able = eligibility(table, demand)
            here = seat(trial, able.request, _counts(trial, able, closed, 1), 1)
            if here is None:
                return None
            _take(trial, able.request, here, 1)
            found[demand.role].update(row for row, _ in here)
    return {role: sorted(rows.items()) for role, rows in found.items()}


def _take(free: Amounts, request: Request, seats: Seats, sign: int) -> None:
    for row, replicas in seats:
        for column, amount in request:
            free[row, column] -= sign * replicas * amount


def seat(free: Amounts, request: Request, counts: Counts, wanted: int) -> Seats | None:
    """Choose nodes for `wanted` equal replicas, given how many each node can take. None if they are too few.

    Fewest nodes: the largest counts whole, and what remains on the tightest node that takes it. Among equals the one
    that is left with least, resource by resource in the axis' order, then the first row.
    """
    if int(counts.sum()) < wanted:
        return None
    if int(counts.max()) >= wanted:
        return [(_tightest(free, request, np.flatnonzero(counts >= wanted), wanted), wanted)]
    whole, rest = _largest(free, request, counts, wanted)
    others = counts >= rest
    others[whole] = False
    last = _tightest(free, request, np.flatnonzero(others), rest)
    return sorted([*zip(whole.tolist(), counts[whole].tolist(), strict=True), (last, rest)])


def _largest(free: Amounts, request: Request, counts: Counts, wanted: int) -> tuple[NDArray[np.int64], int]:
    """The rows whose counts are used up whole, and how many replicas (at least one) remain for one more node."""
    falling = np.sort(counts)[::-1]
    least = int(falling[np.searchsorted(falling.cumsum(), wanted)])
    above = np.flatnonzero(counts > least)
    missing = wanted - int(counts[above].sum())
    equals = np.flatnonzero(counts == least)
    taken = (missing - 1) // least
    tightest_first = equals[_by_left_over(free, request, equals, least)] if 0 < taken < len(equals) else equals
    return np.concatenate((above, tightest_first[:taken])), missing - taken * least


def _tightest(free: Amounts, request: Request, rows: NDArray[np.int64], replicas: int) -> int:
    """The row that has least left once it took `replicas`; what a row gives up is the same for all."""
    asked = dict(request)
    for column in range(free.shape[1]):
        if len(rows) == 1:
            break
        left = free[rows, column] - replicas * asked.get(column, 0)
        rows = rows[left == left.min()]
    return int(rows[0])


def _by_left_over(free: Amounts, request: Request, rows: NDArray[np.int64], replicas: int) -> NDArray[np.int64]:
    """Order of rows by what is left once each took `replicas`, by the axis' order; stable, so then by row."""
    asked = dict(request)
    left = [free[rows, column] - replicas * asked.get(column, 0) for column in range(free.shape[1])]
    return np.lexsort(left[::-1])


def _placement(table: NodeTable, demands: Sequence[Demand], seats: dict[str, Seats]) -> Placement:
    """Replicas in the order of rows, so that neighbours by rank are neighbours in the network."""
    names = table.nodes
    return Placement(
        {d.role: tuple(names[row].name for row, replicas in seats[d.role] for _ in range(replicas)) for d in demands}
    )
