"""Placement of a whole gang or nothing, on the fewest nodes, and among those on the tightest.

Counts first: the number of replicas that fit on each node, by integer division. For equal members that is exact: a
placement exists if and only if the counts add up. Several roles are placed one after the other on a copy of the free
capacity, in several orders; then in rounds, one replica of each role at a time. That is a heuristic: vector bin packing
is NP-hard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, permutations
from typing import NamedTuple, TypeAlias

import numpy as np

from windlass.core.model.gang import Demand, is_placed_elsewhere, total_of, unknown_placement
from windlass.core.model.policy import Policy
from windlass.core.model.snapshot import Amounts, Grant, NodeTable
from windlass.core.model.status import Placement
from windlass.core.nodes.allocation import allocate_grant, compute_grant, release_grant, sum_grants
from windlass.core.nodes.device_assignment import Numbers, amounts_of, assign_devices, tightest_gpu
from windlass.core.nodes.exclusive_rows import ExclusiveRows
from windlass.core.nodes.feasibility import Eligibility, eligibility, room_per_node
from windlass.core.nodes.node_filters import Mask
from windlass.core.placement.batched_selection import select_nodes_by_part
from windlass.core.placement.node_selection import NodeCounts, select_nodes
from windlass.core.placement.scores.node_score import NodeChooser
from windlass.core.placement.scores.registry import chooser_of
from windlass.core.placement.topology_placement import candidate_domains, choose_domains

_MAX_ORDERS = 24
"""Maximum number of orders in which the roles are placed one after the other."""
_MAX_REPLICAS_IN_ROUNDS = 256
"""Maximum number of replicas that are placed one by one: each costs a pass over all nodes."""


class Placed(NamedTuple):
    """A possible placement and its grant, which `allocation.allocate_grant` subtracts."""

    placement: Placement
    grant: Grant


class _RolePlacement(NamedTuple):
    """Placement of one role: replicas per row, the devices of each replica, and the grant of all together."""

    counts_by_row: NodeCounts
    devices: tuple[Numbers, ...]
    """By replica, in the order of rows; empty if the table has no device columns."""
    grant: Grant


_Roles: TypeAlias = dict[str, _RolePlacement]


class _PlacementState(NamedTuple):
    """Free capacity, and the nodes that are closed to the gang. `free` changes while several roles are placed."""

    free: Amounts
    table: NodeTable
    closed: Mask | None
    policy: Policy


_PLAIN = Policy()


def place(
    free: Amounts, table: NodeTable, demands: Sequence[Demand], closed: Mask | None, policy: Policy = _PLAIN
) -> Placed | None:
    """Places every replica of every role outside the `closed` nodes. None: not all of them fit.

    `free` does not change. The policy names the score by which nodes are chosen. A gang that another scheduler places
    always fits, and gets nodes without names and no grant.
    """
    if is_placed_elsewhere(demands):
        return Placed(unknown_placement(demands), compute_grant(table, demands, Placement({})))
    state = _PlacementState(free if len(demands) == 1 else free.copy(order="F"), table, closed, policy)
    for variant in by_gpu_type(demands):
        if roles := _find(state, variant):
            return _gang_placement(table, demands, roles)
    return None


def fits(free: Amounts, table: NodeTable, demands: Sequence[Demand], closed: Mask | None = None) -> bool:
    """Tells whether `place` would succeed; `free` does not change."""
    if len(demands) > 1 or is_placed_elsewhere(demands):
        return place(free, table, demands, closed) is not None
    return any(_fits(free, table, demand, closed) for (demand,) in by_gpu_type(demands))


def by_gpu_type(demands: Sequence[Demand]) -> Sequence[Sequence[Demand]]:
    """Returns the demands once per GPU model that the gang names, best first; unchanged if it names at most one."""
    if len(demands[0].gpu_types) < 2:  # all roles of a gang name the same models
        return (demands,)
    return [[replace(demand, gpu_types=(model,)) for demand in demands] for model in demands[0].gpu_types]


def role_orders(table: NodeTable, demands: Sequence[Demand]) -> Iterator[Sequence[Demand]]:
    """Yields orders of the roles, at first by difficulty: fewest eligible nodes, then most of the scarcest resource."""
    if len(demands) == 1:
        return iter((demands,))
    hardest_first = sorted(demands, key=lambda demand: _ease(table, demand))
    return islice(permutations(hardest_first), _MAX_ORDERS)


def _fits(free: Amounts, table: NodeTable, demand: Demand, closed: Mask | None) -> bool:
    able = eligibility(table, demand)
    counts = room_per_node(free, able, closed, demand.count)
    if demand.topology is not None:
        return choose_domains(counts, able.mask, table, demand.count, demand.topology) is not None
    return int(counts.sum()) >= demand.count


def _find(state: _PlacementState, demands: Sequence[Demand]) -> _Roles | None:
    if len(demands) == 1:
        found = _place_role(state, demands[0])
        return None if found is None else {demands[0].role: found}
    for bounded in _candidate_states(state, demands):
        for order in role_orders(state.table, demands):
            if roles := _place_in_order(bounded, order):
                return roles
        if roles := _place_in_rounds(bounded, demands):
            return roles
    return None


def _candidate_states(state: _PlacementState, demands: Sequence[Demand]) -> Iterator[_PlacementState]:
    """Yields the state; once per candidate domain, if all roles of the gang are to be in one."""
    near, free, table = demands[0].topology, state.free, state.table
    if near is None:
        yield state
        return
    roles = [(room_per_node(free, eligibility(table, d), state.closed, d.count), d.count) for d in demands]
    total = total_of(tuple(demands))
    resources = [
        (np.maximum(free[:, column], 0), total.get(name, 0)) for column, name in enumerate(table.resource_names)
    ]
    for start, stop in candidate_domains(roles, resources, table, near):
        outside = np.ones(len(table.nodes), dtype=np.bool_)
        outside[start:stop] = False if state.closed is None else state.closed[start:stop]
        yield state._replace(closed=outside)


def _ease(table: NodeTable, demand: Demand) -> tuple[object, ...]:
    able = eligibility(table, demand)
    return (
        able.filter_result.eligible,
        [-int(able.request_by_column[column]) for column in able.compared_columns],
        demand.role,
    )


def _place_in_order(state: _PlacementState, demands: Sequence[Demand]) -> _Roles | None:
    """Places roles in this order. Restores `free` at the end; the last role's grant is never subtracted."""
    roles: _Roles = {}
    occupied = ExclusiveRows()
    for demand in demands:
        found = _place_role(state._replace(closed=occupied.closed_to(demand, state.closed)), demand)
        if found is None:
            break
        roles[demand.role] = found
        occupied.add(demand, found.grant.rows, len(state.table.nodes))
        if len(roles) < len(demands):
            allocate_grant(state.table, state.free, found.grant)
    for number, before in enumerate(roles.values(), start=1):
        if number < len(demands):
            release_grant(state.table, state.free, before.grant)
    return roles if len(roles) == len(demands) else None


def _place_role(state: _PlacementState, demand: Demand) -> _RolePlacement | None:
    """Places all replicas of one role, in the domains that it requests."""
    able = eligibility(state.table, demand)
    counts = room_per_node(state.free, able, state.closed, demand.count)
    by = chooser_of(state.policy, state.table, state.free, demand, able)
    score = None if by is None else by.score
    if demand.topology is None:
        counts_by_row = select_nodes(state.free, able, counts, demand.count, score)
    else:
        choice = choose_domains(counts, able.mask, state.table, demand.count, demand.topology)
        counts_by_row = (
            None if choice is None else select_nodes_by_part(state.free, able, choice.counts, choice.parts, score)
        )
    return None if counts_by_row is None else _role_placement(state, demand, able, counts_by_row, by)


def _place_in_rounds(state: _PlacementState, demands: Sequence[Demand]) -> _Roles | None:
    """Places a replica of each role in turn, so that roles which need different resources share nodes evenly."""
    near = demands[0].topology
    by_numbers = near is not None and (near.spread or near.slice > 0)
    if by_numbers or sum(demand.count for demand in demands) > _MAX_REPLICAS_IN_ROUNDS:
        return None
    trial = state._replace(free=state.free.copy(order="F"))
    found: dict[str, list[_RolePlacement]] = {demand.role: [] for demand in demands}
    hardest_first = sorted(demands, key=lambda demand: _ease(state.table, demand))
    occupied = ExclusiveRows()
    for round_number in range(max(demand.count for demand in demands)):
        for demand in hardest_first:
            if round_number >= demand.count:
                continue
            closed = occupied.closed_to(demand, state.closed)
            here = _place_role(trial._replace(closed=closed), replace(demand, count=1, topology=None))
            if here is None:
                return None
            occupied.add(demand, here.grant.rows, len(state.table.nodes))
            allocate_grant(state.table, trial.free, here.grant)
            found[demand.role].append(here)
    return {role: _joined_replicas(replicas) for role, replicas in found.items()}


def _role_placement(
    state: _PlacementState, demand: Demand, able: Eligibility, counts_by_row: NodeCounts, by: NodeChooser | None
) -> _RolePlacement:
    table = state.table
    rows = np.array([row for row, _ in counts_by_row])
    if able.capacity is not None:
        amounts = able.capacity[rows]
    elif len(counts_by_row) == 1:
        amounts = able.request_by_column[None] * counts_by_row[0][1]
    else:
        amounts = able.request_by_column * np.array([[replicas] for _, replicas in counts_by_row])
    if table.devices is None:
        return _RolePlacement(counts_by_row, (), Grant(rows, amounts))
    devices: list[Numbers] = []
    for number, (row, replicas) in enumerate(counts_by_row):
        left = state.free[row, table.devices.columns].tolist()
        mine = assign_devices(table, row, left, demand, replicas, tightest_gpu if by is None else by.on(row))
        devices += mine
        if able.capacity is None:
            for column, amount in amounts_of(table, row, demand, mine):
                amounts[number, column] += amount
    return _RolePlacement(counts_by_row, tuple(devices), Grant(rows, amounts))


def _joined_replicas(replicas: Sequence[_RolePlacement]) -> _RolePlacement:
    """Joins replicas of one role that were placed one by one, in the order of rows."""
    by_row = sorted(replicas, key=lambda one: one.counts_by_row[0][0])
    counts_by_row: dict[int, int] = {}
    for one in by_row:
        row = one.counts_by_row[0][0]
        counts_by_row[row] = counts_by_row.get(row, 0) + 1
    devices = tuple(numbers for one in by_row for numbers in one.devices)
    return _RolePlacement(list(counts_by_row.items()), devices, sum_grants([one.grant for one in by_row]))


def _gang_placement(table: NodeTable, demands: Sequence[Demand], roles: _Roles) -> Placed:
    """Joins the roles. Replicas are in the order of rows, so that neighbours by rank are neighbours in the network."""
    nodes = table.nodes
    names = {
        d.role: tuple([nodes[row].name for row, replicas in roles[d.role].counts_by_row for _ in range(replicas)])
        for d in demands
    }
    devices = {}
    if table.devices is not None:
        devices = {d.role: roles[d.role].devices for d in demands if any(roles[d.role].devices)}
    return Placed(Placement(names, devices), sum_grants([roles[d.role].grant for d in demands]))
