"""What is missing for a gang, counted and said in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from windlass.core.feasibility import FULL, Eligibility, eligibility
from windlass.core.gang import Demand
from windlass.core.placement import fits, orders, place, replicas_per_node
from windlass.core.reasons import Count, Reason, Verdict
from windlass.core.resources import format_quantity
from windlass.core.snapshot import Amounts, NodeTable


@dataclass(frozen=True, slots=True)
class Shortage:
    """Of the role and the resource that bind. Amounts in the resource's unit."""

    demand: Demand
    resource: str
    """"" if no node has what it asks for."""
    each: int
    """What one replica asks for."""
    free: int
    """On all eligible nodes."""
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


def shortage(free: Amounts, table: NodeTable, demands: Sequence[Demand]) -> Shortage | None:
    """What keeps the gang from fitting into `free`, or None if it fits."""
    if fits(free, table, demands):
        return None
    trial = free.copy(order="F")  # roles that do fit take their part before the next is looked at
    hardest_first = next(iter(orders(table, demands)))
    for demand in hardest_first[:-1]:
        if not fits(trial, table, (demand,)):
            return _of_role(trial, table, demand)
        place(trial, table, (demand,), None)
    return _of_role(trial, table, hardest_first[-1])


def _of_role(free: Amounts, table: NodeTable, demand: Demand) -> Shortage:
    able = eligibility(table, demand)
    counts = replicas_per_node(free, able.request, able.mask, demand.count)
    column, each = binding(free, able, demand.count)
    there = free[able.mask, column] if each else np.zeros(0, dtype=np.int64)
    there = there[there > 0]
    eligible = int(able.mask.sum())
    return Shortage(
        demand=demand,
        resource=table.axis[column] if each else "",
        each=each,
        free=int(there.sum()),
        freest=int(there.max()) if len(there) else 0,
        nodes_with_free=len(there),
        eligible=eligible,
        fits=min(int(counts.sum()), demand.count),
        lost=able.counts,
        full=eligible - int(np.count_nonzero(counts)),
    )


def binding(free: Amounts, able: Eligibility, wanted: int) -> tuple[int, int]:
    """(column, amount) of the resource that alone would let the fewest replicas in; the scarcer kind among equals."""
    if not able.request:
        return 0, 0
    rooms = [int(replicas_per_node(free, (part,), able.mask, wanted).sum()) for part in able.request]
    return able.request[rooms.index(min(rooms))]


def capacity_verdict(short: Shortage) -> Verdict:
    """The gang would fit if enough of what runs now had ended."""
    enough = short.free >= short.each * short.demand.count
    reason = Reason.TOPOLOGY_PLACEMENT_FAILED if enough else Reason.WAITING_FOR_QUOTA
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
    able = _nodes(short.eligible) if short.eligible else "no node"
    room = f", {short.fits} of {short.demand.count} in all" if short.eligible else ""
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
    """Say what the role asks for: "2×8 gpu as one gang", "8 gpu on one node"."""
    demand = short.demand
    amount = said(short.resource, short.each) if short.resource else "(" + all_said(demand.resources) + ")"
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
