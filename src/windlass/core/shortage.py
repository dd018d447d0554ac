"""What is missing for a gang, counted and said in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from windlass.core.booking import take
from windlass.core.feasibility import FULL, eligibility
from windlass.core.gang import Demand
from windlass.core.placement import fits, orders, place
from windlass.core.reasons import Count, Reason, Verdict
from windlass.core.resources import format_quantity
from windlass.core.snapshot import NodeTable
from windlass.core.stock import Stocks, binding


@dataclass(frozen=True, slots=True)
class Shortage:
    """Of the role and the resource that bind. Amounts in the resource's unit."""

    demand: Demand
    alone: bool
    """It is the gang's only role."""
    resource: str
    """"" if no node has what it asks for."""
    each: int
    """What one replica asks for."""
    free: int
    """On all eligible nodes."""
    enough: bool
    """Of every resource, if it only were in one piece."""
    freest: int
    """On the one that has most."""
    nodes_with_free: int
    eligible: int
    fits: int
    """Replicas that would find room."""
    lost: tuple[Count, ...]
    """Nodes that are not eligible."""
    full: int
    """Eligible nodes without room for one replica."""


def shortage(stocks: Stocks, table: NodeTable, demands: Sequence[Demand]) -> Shortage | None:
    """What keeps the gang from fitting into what is free, or None if it fits."""
    if len(demands) == 1:
        return _of_role(stocks, table, demands[0], alone=True)
    if fits(stocks.free, table, demands):
        return None
    trial = stocks.free.copy(order="F")  # roles that do fit take their part before the next is looked at
    for demand in next(iter(orders(table, demands))):
        if short := _of_role(Stocks(trial), table, demand, alone=False):
            return short
        if found := place(trial, table, (demand,), None):
            take(table, trial, found.grant)
    return None


def _of_role(stocks: Stocks, table: NodeTable, demand: Demand, *, alone: bool) -> Shortage | None:
    able = eligibility(table, demand)
    stock = stocks.of(able.screen)
    rooms = stock.rooms(able, demand.count)
    counts = reduce(np.minimum, rooms)
    room = int(np.add.reduce(counts))
    if room >= demand.count:
        return None
    column, each = binding(able, rooms)
    return Shortage(
        demand=demand,
        alone=alone,
        resource=table.axis[column] if each else "",
        each=each,
        free=stock.total[column] if each else 0,
        enough=all(stock.total[column] >= amount * demand.count for column, amount in able.request),
        freest=stock.most[column] if each else 0,
        nodes_with_free=stock.nodes[column] if each else 0,
        eligible=able.screen.eligible,
        fits=room,
        lost=able.screen.counts,
        full=able.screen.eligible - int(np.count_nonzero(counts)),
    )


def capacity_verdict(short: Shortage) -> Verdict:
    """The gang would fit if enough of what runs now had ended."""
    reason = Reason.TOPOLOGY_PLACEMENT_FAILED if short.enough else Reason.WAITING_FOR_QUOTA
    unit, count = short.resource, short.demand.count
    free = format_quantity(unit, short.free)
    where = f"{free} free on {_nodes(short.nodes_with_free)}" if short.free else "none free"
    if count > 1:
        room = f", room for {short.fits} of {count}" if short.free else ""
    else:
        room = f", at most {format_quantity(unit, short.freest)} on one" if short.nodes_with_free > 1 else ""
    return _verdict(reason, short, f"needs {wanted(short)}: {where}{room}{_said(short.lost)}")


def never_verdict(short: Shortage) -> Verdict:
    """The gang would not even fit on empty nodes; `short` was made on the nodes' capacity."""
    if not short.eligible and not short.lost:
        return _verdict(Reason.NO_MATCHING_FLAVOR, short, f"needs {wanted(short)}: the cluster has no nodes")
    able = _nodes(short.eligible) if short.eligible else "no node"
    beside = "" if short.alone else " beside its other roles"
    room = f", {short.fits} of {short.demand.count} in all{beside}" if short.eligible else ""
    text = f"needs {wanted(short)}: {able} could take a replica{room}, however empty{_said(short.lost)}"
    return _verdict(Reason.NO_MATCHING_FLAVOR, short, text)


def _verdict(reason: Reason, short: Shortage, message: str) -> Verdict:
    full = (Count(FULL, short.full),) if short.full else ()
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


def wanted(short: Shortage) -> str:
    """Say what the role asks for: "2×8 gpu as one gang", "8 gpu on one node", "2×8 gpu for its role worker"."""
    demand = short.demand
    amount = said(short.resource, short.each) if short.resource else all_said(demand.resources)
    if not short.alone:
        return f"{demand.count}×{amount} for its role {demand.role}"
    return f"{demand.count}×{amount} as one gang" if demand.count > 1 else f"{amount} on one node"


def said(resource: str, amount: int) -> str:
    """Say an amount: "8 gpu", "512Gi memory"."""
    return f"{format_quantity(resource, amount)} {resource}"


def all_said(resources: Mapping[str, int]) -> str:
    """Say everything that is asked for."""
    return ", ".join(said(name, amount) for name, amount in sorted(resources.items()) if amount) or "nothing"


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _said(lost: Sequence[Count]) -> str:
    """Say where nodes went: "; 40 nodes lost to label zone=a, 3 cordoned"."""
    parts = [
        f"{_nodes(count.nodes)} lost to {count.cause}"
        if count.cause.startswith(("label ", "taint "))
        else f"{count.nodes if place_in_line else _nodes(count.nodes)} {count.cause}"
        for place_in_line, count in enumerate(lost)
    ]
    return f"; {', '.join(parts)}" if parts else ""
