"""The reason why replicas cannot be as close together, or as spread out, as requested: counted by domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from windlass.core.model.gang import Demand
from windlass.core.model.job import TopologyRequest
from windlass.core.model.reasons import CauseCount, format_count
from windlass.core.model.snapshot import NodeTable
from windlass.core.nodes.feasibility import FilterResult
from windlass.core.nodes.node_filters import Mask
from windlass.core.nodes.topology_domains import Bounds, domain_name, level_number, levels_of
from windlass.core.placement.domain_packing import Counts


@dataclass(frozen=True, slots=True)
class TopologyShortage:
    """The shortage of one role, which might fit if it requested no domains."""

    request: TopologyRequest
    level: int
    """Index of the level; -1: the cluster has no such level."""
    domains: int
    """Number of domains of the level with nodes that the role could use."""
    fits: int
    """Number of replicas that would fit as requested, by this role's count alone."""
    decisive: str
    """The limiting domain ("b1/r3"): the largest, or for a spread the fullest; "" if there is none."""
    room: int
    """Room in that domain, in replicas."""
    lost: tuple[CauseCount, ...]
    """Whole excluded domains, by the last cause that excludes a node of them; `nodes` counts domains."""


def find_topology_shortage(
    counts: Counts, screen: FilterResult, table: NodeTable, near: TopologyRequest
) -> TopologyShortage:
    """Returns the shortage of a role of which `counts` (int64[N]) replicas fit on each node."""
    number = level_number(table, near.level)
    if number is None:
        return TopologyShortage(near, -1, 0, 0, "", 0, ())
    level = levels_of(table)[number]
    room = np.add.reduceat(counts, level.bounds[:-1])
    able = np.flatnonzero(_any(screen.mask, level.bounds) & level.named)
    lost = _lost(screen, level.bounds, level.named)
    if not len(able):
        return TopologyShortage(near, number, 0, 0, "", 0, lost)
    there = room[able]
    if near.spread:
        fits, decides = int(np.minimum(there, there.min() + 1).sum()), there.argmin()
    elif near.slice:
        fits, decides = int((there // near.slice).sum()) * near.slice, there.argmax()
    else:
        fits, decides = int(there.max()), there.argmax()
    domain = able[decides]
    name = domain_name(table, number, int(level.bounds[domain]))
    return TopologyShortage(near, number, len(able), fits, name, int(room[domain]), lost)


def topology_fault(table: NodeTable, demands: Sequence[Demand]) -> str:
    """Returns the fault of a gang's topology request, with its fix, or "". Without nodes, any level is accepted."""
    near, known = demands[0].topology, table.topology.levels
    if near is None:
        return ""
    if near.level not in known and table.nodes and (near.required or known):
        close = get_close_matches(near.level, known, n=1)
        hint = (
            f"did you mean {close[0]}?" if close else f"its levels are {', '.join(known)}" if known else "it has none"
        )
        return f"the cluster's topology has no level {near.level}; {hint}"
    if near.slice < 0 or (near.slice and near.spread):
        return "a gang is cut into slices of one replica at least, or spread, not both"
    sizes = ((demand.role, size) for demand in demands for size in (demand.count, demand.least, demand.most))
    for role, size in sizes:
        if near.slice and size % near.slice:
            return f"{size} replicas of {role} are no whole number of slices of {near.slice}"
    return ""


def format_request(near: TopologyRequest) -> str:
    """Formats the request: "in one rack", "spread evenly by rack", "in slices of 8, each in one rack"."""
    if near.spread:
        return f"spread evenly by {near.level}"
    return f"in slices of {near.slice}, each in one {near.level}" if near.slice else f"in one {near.level}"


def format_room(near: TopologyShortage) -> str:
    """Formats the available room: "room for 12 in the largest of 40 racks (b1/r3)"."""
    level, size = near.request.level, near.request.slice
    if near.level < 0:
        return f"the cluster's topology has no level {level}"
    if not near.domains:
        return f"no {level} that it could use"
    there = format_count(near.domains, level)
    if near.request.spread:
        return f"room for {near.fits}, as the fullest of {there} ({near.decisive}) takes {near.room}"
    if size:
        return f"room for {format_count(near.fits // size, 'slice')} in {there}"
    return f"room for {near.room} in the largest of {there} ({near.decisive})"


def _any(mask: Mask, bounds: Bounds) -> Mask:
    there: Mask = np.logical_or.reduceat(mask, bounds[:-1])
    return there


def _lost(screen: FilterResult, bounds: Bounds, named: Mask) -> tuple[CauseCount, ...]:
    last = np.maximum.reduceat(screen.lost, bounds[:-1])
    gone = Counter(last[~_any(screen.mask, bounds) & named].tolist())
    return tuple(CauseCount(cause, gone[number]) for number, cause in enumerate(screen.causes) if gone[number])
