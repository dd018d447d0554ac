"""The resources missing for a gang, counted and formatted in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from windlass.core.model.gang import Demand, is_placed_elsewhere
from windlass.core.model.reasons import CauseCount, Reason, Verdict, format_count
from windlass.core.model.resources import PODS, format_readable
from windlass.core.model.snapshot import Amounts, NodeTable
from windlass.core.nodes.allocation import allocate_grant
from windlass.core.nodes.exclusive_rows import ExclusiveRows
from windlass.core.nodes.feasibility import FULL, Eligibility, eligibility, room_per_node
from windlass.core.nodes.free_capacity import FreeCapacities
from windlass.core.nodes.node_filters import HELD_EXCLUSIVELY, Mask
from windlass.core.nodes.topology_domains import domain_name
from windlass.core.placement.domain_packing import Counts
from windlass.core.placement.gang_placement import by_gpu_type, fits, place, role_orders
from windlass.core.placement.topology_placement import choose_domains, roomiest_domain
from windlass.core.placement.topology_shortage import (
    TopologyShortage,
    find_topology_shortage,
    format_request,
    format_room,
)

_EXPLICIT_CAUSES = ("label ", "affinity ", "gpu-type ", "taint ", HELD_EXCLUSIVELY)
"""Prefixes of causes that state exactly what was requested."""

_NO_RESOURCES = "nothing"
"""Text of a request without resources."""


class Shortage(NamedTuple):
    """The shortage of the limiting role and resource. Amounts in the resource's unit."""

    demand: Demand
    alone: bool
    """The role is the gang's only one."""
    resource: str
    """ "" if no node has what it requests."""
    each: int
    """Request of one replica."""
    free: int
    """Free on all eligible nodes."""
    enough: bool
    """Enough of every resource is free in total."""
    freest: int
    """Free on the node that has most."""
    nodes_with_free: int
    eligible: int
    fits: int
    """Number of replicas that fit."""
    lost: tuple[CauseCount, ...]
    """Nodes that are not eligible."""
    full: int
    """Number of eligible nodes without room for one replica."""
    near: TopologyShortage | None = None
    """All replicas would fit, but not in the requested domains."""


def find_shortage(stocks: FreeCapacities, table: NodeTable, demands: Sequence[Demand]) -> Shortage | None:
    """Returns the shortage that keeps the gang from fitting into the free capacity; None if it fits.

    For a gang that accepts several GPU models: the shortage on the model where most of it fits, the first of equals.
    Where nothing of it fits on any model: the shortage on all models together, which names the cause of each node.
    """
    if is_placed_elsewhere(demands):
        return None
    found: list[Shortage] = []
    for variant in by_gpu_type(demands):
        short = _shortage(stocks, table, variant)
        if short is None:
            return None
        found.append(short)
    best = max(found, key=lambda short: short.fits)
    of_all = _shortage(stocks, table, demands) if len(found) > 1 and not best.fits else None
    return of_all or best


def _shortage(stocks: FreeCapacities, table: NodeTable, demands: Sequence[Demand]) -> Shortage | None:
    if len(demands) == 1:
        return _role_shortage(stocks, table, demands[0], alone=True)
    if fits(stocks.free, table, demands):
        return None
    return _first_shortage(stocks.free, table, demands) or _in_best_domain(stocks.free, table, demands)


def _first_shortage(free: Amounts, table: NodeTable, demands: Sequence[Demand]) -> Shortage | None:
    """Returns the shortage of the first role that does not fit; the roles before it are placed."""
    left = free.copy(order="F")
    occupied = ExclusiveRows()
    for demand in next(iter(role_orders(table, demands))):
        closed = occupied.closed_to(demand)
        if short := _role_shortage(FreeCapacities(_without_rows(left, closed)), table, demand, alone=False):
            return short
        if found := place(left, table, (demand,), closed):
            allocate_grant(table, left, found.grant)
            occupied.add(demand, found.grant.rows, len(table.nodes))
    return None


def _without_rows(free: Amounts, closed: Mask | None) -> Amounts:
    if closed is None:
        return free
    left = free.copy(order="F")
    left[closed] = 0
    return left


def _in_best_domain(free: Amounts, table: NodeTable, demands: Sequence[Demand]) -> Shortage | None:
    """Returns what is short in the domain that comes nearest, if each role fits somewhere but no domain takes all."""
    near = demands[0].topology
    if near is None or not (
        span := roomiest_domain([(_counts(free, table, d), d.count) for d in demands], table, near)
    ):
        return None
    inside = np.zeros_like(free)
    inside[slice(*span)] = free[slice(*span)]
    short = _first_shortage(inside, table, [replace(demand, topology=None) for demand in demands])
    if short is None:
        return None
    domains = find_topology_shortage(
        _counts(free, table, short.demand), eligibility(table, short.demand).filter_result, table, near
    )
    name = domain_name(table, domains.level, span.start)
    return short._replace(enough=True, near=replace(domains, limiting_domain=name, fits=short.fits, room=short.fits))


def _counts(free: Amounts, table: NodeTable, demand: Demand) -> Counts:
    return room_per_node(free, eligibility(table, demand), None, demand.count)


def _role_shortage(stocks: FreeCapacities, table: NodeTable, demand: Demand, *, alone: bool) -> Shortage | None:
    able = eligibility(table, demand)
    stock = stocks.of(able)
    rooms = stock.rooms(able, demand.count)
    counts = np.minimum.reduce(rooms, axis=0)
    room = stock.count(counts)
    near = _domain_shortage(counts[stock.kind_of], able, table, demand) if room >= demand.count else None
    if near is None and room >= demand.count:
        return None
    column, each = stock.binding(able, rooms)
    return Shortage(
        demand=demand,
        alone=alone,
        resource=table.resource_names[column] if each else "",
        each=each,
        free=stock.total[column] if each else 0,
        enough=all(stock.total[column] >= amount * demand.count for column, amount in able.request),
        freest=stock.most[column] if each else 0,
        nodes_with_free=stock.nodes[column] if each else 0,
        eligible=able.filter_result.eligible,
        fits=near.fits if near else room,
        lost=able.filter_result.counts,
        full=stock.count(counts == 0),
        near=near,
    )


def _domain_shortage(counts: Counts, able: Eligibility, table: NodeTable, demand: Demand) -> TopologyShortage | None:
    """Returns why no domains take the role, although all nodes together would; None: they do."""
    if demand.topology is None:
        return None
    by_row = np.zeros(len(table.nodes), dtype=np.int64)
    by_row[able.mask] = counts
    if choose_domains(by_row, able.mask, table, demand.count, demand.topology) is not None:
        return None
    return find_topology_shortage(by_row, able.filter_result, table, demand.topology)


def capacity_verdict(short: Shortage) -> Verdict:
    """Returns the verdict of a gang that would fit if enough running gangs had ended."""
    reason = Reason.TOPOLOGY_PLACEMENT_FAILED if short.enough else Reason.WAITING_FOR_QUOTA
    unit, count = short.resource, short.demand.count
    free = format_readable(unit, short.free)
    where = f"{free} free on {_nodes(short.nodes_with_free)}" if short.free else "none free"
    if count > 1:
        room = f", room for {short.fits} of {count}" if short.free else ""
    else:
        room = f", at most {format_readable(unit, short.freest)} on one" if short.nodes_with_free > 1 else ""
    if short.demand.whole_node:
        where, room = f"{short.fits} of {_nodes(short.eligible)} empty", ""
    if short.near:
        room = f", {format_room(short.near)}"
    return _verdict(reason, short, f"needs {format_wanted(short)}: {where}{room}{_format_all_lost(short)}")


def impossible_verdict(short: Shortage) -> Verdict:
    """Returns the verdict of a gang that does not fit on empty nodes; `short` was computed from their capacity."""
    if not short.eligible and not short.lost:
        return _verdict(Reason.NO_MATCHING_FLAVOR, short, f"needs {format_wanted(short)}: the cluster has no nodes")
    able = _nodes(short.eligible) if short.eligible else "no node"
    beside = "" if short.alone else " beside its other roles"
    room = f", {short.fits} of {short.demand.count} in all{beside}" if short.eligible else ""
    if short.near:
        room = f", {format_room(short.near)}{beside}"
    text = f"needs {format_wanted(short)}: {able} could take a replica{room}, however empty{_format_all_lost(short)}"
    return _verdict(Reason.NO_MATCHING_FLAVOR, short, text)


def _verdict(reason: Reason, short: Shortage, message: str) -> Verdict:
    full = (CauseCount(FULL, short.full),) if short.full else ()
    return Verdict(
        reason=reason,
        message=message,
        resource=short.resource,
        wanted=short.demand.count,
        fits=short.fits,
        free=short.free,
        usable=short.fits * short.each,
        counts=(*short.lost, *full),
    )


def format_wanted(short: Shortage) -> str:
    """Formats the request of the role: "2×8 gpu as one gang", "8 gpu on one node", "2×8 gpu for its role worker"."""
    demand = short.demand
    amount = format_amount(short.resource, short.each) if short.resource else format_amounts(demand.resources)
    near = f" {format_request(short.near.request)}" if short.near else ""
    own = ", each on a node of its own" if demand.whole_node and demand.count > 1 else ""
    if not short.alone:
        return f"{demand.count}×{amount} for its role {demand.role}{own}{near}"
    if demand.count > 1:
        replicas = f"{demand.count} replicas" if amount == _NO_RESOURCES else f"{demand.count}×{amount}"
        return f"{replicas} as one gang{own}{near}"
    return f"{amount} on {'a node of its own' if demand.whole_node else 'one node'}{near}"


def format_amount(resource: str, amount: int) -> str:
    """Formats an amount: "8 gpu", "512Gi memory"."""
    return f"{format_readable(resource, amount)} {resource}"


def asked_amounts(resources: Mapping[str, int]) -> dict[str, int]:
    """Returns the amounts of a request in the order of names, without the implied one pod per replica."""
    return {name: amount for name, amount in sorted(resources.items()) if amount and name != PODS}


def format_amounts(resources: Mapping[str, int]) -> str:
    """Formats a request, without the implied one pod per replica."""
    asked = [format_amount(name, amount) for name, amount in asked_amounts(resources).items()]
    return ", ".join(asked) or _NO_RESOURCES


def _nodes(count: int) -> str:
    return format_count(count, "node")


def _format_all_lost(short: Shortage) -> str:
    """Formats the causes of excluded domains and nodes."""
    domains = _format_lost(short.near.excluded_domains, short.near.request.level) if short.near else ""
    return domains + _format_lost(short.lost, "node")


def _format_lost(lost: Sequence[CauseCount], what: str) -> str:
    """Formats causes: "; 40 nodes lost to label zone=a, 3 cordoned"."""
    parts = [
        f"{format_count(count.nodes, what)} lost to {count.cause}"
        if count.cause.startswith(_EXPLICIT_CAUSES)
        else f"{count.nodes if number else format_count(count.nodes, what)} {count.cause}"
        for number, count in enumerate(lost)
    ]
    return f"; {', '.join(parts)}" if parts else ""
