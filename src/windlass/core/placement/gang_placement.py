"""Where a gang goes: all of it or none, on as few nodes as can be, and the tightest of those.

Counts first: how many replicas each node could take, by integer division. For equal members that is exact, since a
placement exists if and only if the counts add up. Several roles are placed one after the other on a trial copy, in
several orders; then in rounds, a replica of each role at a time. That is a heuristic: vector bin packing is NP-hard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, permutations
from typing import NamedTuple, TypeAlias

import numpy as np

from windlass.core.model.gang import Demand, total_of
from windlass.core.model.policy import Policy
from windlass.core.model.snapshot import Amounts, Grant, NodeTable
from windlass.core.model.status import Placement
from windlass.core.nodes.allocation import give_back, join_grants, take
from windlass.core.nodes.device_assignment import Numbers, amounts_of, assign_devices, tightest_gpu
from windlass.core.nodes.feasibility import Eligibility, Mask, eligibility, room_per_node
from windlass.core.placement.batched_selection import select_nodes_by_part
from windlass.core.placement.node_selection import NodeCounts, select_nodes
from windlass.core.placement.scores.node_score import NodeChooser
from windlass.core.placement.scores.registry import chooser_of
from windlass.core.placement.topology_placement import candidate_domains, choose_domains

_ORDERS_TRIED = 24
"""How many orders of the roles are tried, one role after the other."""
_MOST_IN_ROUNDS = 256
"""Replicas that are placed one by one: each costs a look at all nodes."""


class Placed(NamedTuple):
    """Where a gang would go, and what it would hold there; `booking.take` takes it."""

    placement: Placement
    grant: Grant


class _Seated(NamedTuple):
    """One role: how many replicas go to which rows, the devices of each replica, and what they take together."""

    seats: NodeCounts
    devices: tuple[Numbers, ...]
    """By replica, in the order of rows; empty if the table has no single devices."""
    grant: Grant


_Roles: TypeAlias = dict[str, _Seated]


class _Scene(NamedTuple):
    """What is free, and what of it is closed to the gang. `free` changes while several roles are tried."""

    free: Amounts
    table: NodeTable
    closed: Mask | None
    policy: Policy


_PLAIN = Policy()


def place(
    free: Amounts, table: NodeTable, demands: Sequence[Demand], closed: Mask | None, policy: Policy = _PLAIN
) -> Placed | None:
    """Find room for every replica of every role outside the `closed` nodes. None: not all of them fit.

    `free` stays as it is. The policy says how nodes are chosen among those that do.
    """
    scene = _Scene(free if len(demands) == 1 else free.copy(order="F"), table, closed, policy)
    for asked in by_gpu_type(demands):
        if roles := _find(scene, asked):
            return _placed(table, demands, roles)
    return None


def fits(free: Amounts, table: NodeTable, demands: Sequence[Demand], closed: Mask | None = None) -> bool:
    """Whether `place` would find room; `free` stays as it was."""
    if len(demands) > 1:
        return place(free, table, demands, closed) is not None
    return any(_fits(free, table, demand, closed) for (demand,) in by_gpu_type(demands))


def by_gpu_type(demands: Sequence[Demand]) -> Sequence[Sequence[Demand]]:
    """The gang on each model of GPU that it names, the best first; as it is, if it names no choice."""
    if len(demands[0].gpu_types) < 2:  # every role of a gang names the same
        return (demands,)
    return [[replace(demand, gpu_types=(model,)) for demand in demands] for model in demands[0].gpu_types]


def role_orders(table: NodeTable, demands: Sequence[Demand]) -> Iterator[Sequence[Demand]]:
    """Hardest role first: fewest eligible nodes, then most of the scarcest resource; then other orders."""
    if len(demands) == 1:
        return iter((demands,))
    hardest_first = sorted(demands, key=lambda demand: _ease(table, demand))
    return islice(permutations(hardest_first), _ORDERS_TRIED)


def _fits(free: Amounts, table: NodeTable, demand: Demand, closed: Mask | None) -> bool:
    able = eligibility(table, demand)
    counts = room_per_node(free, able, closed, demand.count)
    if demand.topology is not None:
        return choose_domains(counts, able.mask, table, demand.count, demand.topology) is not None
    return int(counts.sum()) >= demand.count


def _find(scene: _Scene, demands: Sequence[Demand]) -> _Roles | None:
    if len(demands) == 1:
        found = _seat_role(scene, demands[0])
        return None if found is None else {demands[0].role: found}
    for bounded in _bounds(scene, demands):
        for order in role_orders(scene.table, demands):
            if roles := _seat_all(bounded, order):
                return roles
        if roles := _seat_in_rounds(bounded, demands):
            return roles
    return None


def _bounds(scene: _Scene, demands: Sequence[Demand]) -> Iterator[_Scene]:
    """The scene, one domain after the other if all the gang's roles are to be in one."""
    near, free, table = demands[0].topology, scene.free, scene.table
    if near is None:
        yield scene
        return
    roles = [(room_per_node(free, eligibility(table, d), scene.closed, d.count), d.count) for d in demands]
    total = total_of(tuple(demands))
    resources = [(np.maximum(free[:, column], 0), total.get(name, 0)) for column, name in enumerate(table.axis)]
    for start, stop in candidate_domains(roles, resources, table, near):
        outside = np.ones(len(table.nodes), dtype=np.bool_)
        outside[start:stop] = False if scene.closed is None else scene.closed[start:stop]
        yield scene._replace(closed=outside)


def _ease(table: NodeTable, demand: Demand) -> tuple[object, ...]:
    able = eligibility(table, demand)
    return able.screen.eligible, (-able.each).tolist(), demand.role


def _seat_all(scene: _Scene, demands: Sequence[Demand]) -> _Roles | None:
    """Roles in this order; what was taken is given back at the end. The last one takes nothing."""
    roles: _Roles = {}
    for demand in demands:
        found = _seat_role(scene, demand)
        if found is None:
            break
        roles[demand.role] = found
        if len(roles) < len(demands):
            take(scene.table, scene.free, found.grant)
    for number, before in enumerate(roles.values(), start=1):
        if number < len(demands):
            give_back(scene.table, scene.free, before.grant)
    return roles if len(roles) == len(demands) else None


def _seat_role(scene: _Scene, demand: Demand) -> _Seated | None:
    """All replicas of one role, in the domains it asks for."""
    able = eligibility(scene.table, demand)
    counts = room_per_node(scene.free, able, scene.closed, demand.count)
    by = chooser_of(scene.policy, scene.table, scene.free, demand, able)
    score = None if by is None else by.score
    if demand.topology is None:
        seats = select_nodes(scene.free, able, counts, demand.count, score)
    else:
        choice = choose_domains(counts, able.mask, scene.table, demand.count, demand.topology)
        seats = None if choice is None else select_nodes_by_part(scene.free, able, choice.counts, choice.parts, score)
    return None if seats is None else _seated(scene, demand, able, seats, by)


def _seat_in_rounds(scene: _Scene, demands: Sequence[Demand]) -> _Roles | None:
    """A replica of each role in turn, so that roles which want different resources share nodes evenly."""
    near = demands[0].topology
    by_numbers = near is not None and (near.spread or near.slice > 0)
    if by_numbers or sum(demand.count for demand in demands) > _MOST_IN_ROUNDS:
        return None
    trial = scene._replace(free=scene.free.copy(order="F"))
    found: dict[str, list[_Seated]] = {demand.role: [] for demand in demands}
    hardest_first = sorted(demands, key=lambda demand: _ease(scene.table, demand))
    for round_number in range(max(demand.count for demand in demands)):
        for demand in hardest_first:
            if round_number >= demand.count:
                continue
            here = _seat_role(trial, replace(demand, count=1, topology=None))
            if here is None:
                return None
            take(scene.table, trial.free, here.grant)
            found[demand.role].append(here)
    return {role: _together(replicas) for role, replicas in found.items()}


def _seated(scene: _Scene, demand: Demand, able: Eligibility, seats: NodeCounts, by: NodeChooser | None) -> _Seated:
    table = scene.table
    rows = np.array([row for row, _ in seats])
    if able.capacity is not None:
        amounts = able.capacity[rows]
    elif len(seats) == 1:
        amounts = able.each[None] * seats[0][1]
    else:
        amounts = able.each * np.array([[replicas] for _, replicas in seats])
    if table.devices is None:
        return _Seated(seats, (), Grant(rows, amounts))
    devices: list[Numbers] = []
    for number, (row, replicas) in enumerate(seats):
        left = scene.free[row, table.devices.columns].tolist()
        mine = assign_devices(table, row, left, demand, replicas, tightest_gpu if by is None else by.on(row))
        devices += mine
        if able.capacity is None:
            for column, amount in amounts_of(table, row, demand, mine):
                amounts[number, column] += amount
    return _Seated(seats, tuple(devices), Grant(rows, amounts))


def _together(replicas: Sequence[_Seated]) -> _Seated:
    """Replicas of one role that were seated one by one, in the order of rows."""
    by_row = sorted(replicas, key=lambda one: one.seats[0][0])
    seats: dict[int, int] = {}
    for one in by_row:
        row = one.seats[0][0]
        seats[row] = seats.get(row, 0) + 1
    devices = tuple(numbers for one in by_row for numbers in one.devices)
    return _Seated(list(seats.items()), devices, join_grants([one.grant for one in by_row]))


def _placed(table: NodeTable, demands: Sequence[Demand], roles: _Roles) -> Placed:
    """Replicas in the order of rows, so that neighbours by rank are neighbours in the network."""
    nodes = table.nodes
    names = {
        d.role: tuple([nodes[row].name for row, replicas in roles[d.role].seats for _ in range(replicas)])
        for d in demands
    }
    devices = {}
    if table.devices is not None:
        devices = {d.role: roles[d.role].devices for d in demands if any(roles[d.role].devices)}
    return Placed(Placement(names, devices), join_grants([roles[d.role].grant for d in demands]))
