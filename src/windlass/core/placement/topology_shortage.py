"""Explains why the replicas of a role do not fit a topology request: how many fit, and which domain limits them."""

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
    """Why one role does not fit its topology request. Without the request it might fit."""

    request: TopologyRequest
    level: int
    """Index of the level; -1: the cluster has no such level."""
    domains: int
    """Number of domains of the level with nodes that the role could use."""
    fits: int
    """Number of replicas that would fit as requested, by this role's count alone."""
    limiting_domain: str
    """The domain with the most room ("b1/r3"), or for a spread the one with the least; "" if there is none."""
    room: int
    """Room in that domain, in replicas."""
    excluded_domains: tuple[CauseCount, ...]
    """Whole excluded domains, by the last cause that excludes a node of them; `nodes` counts domains."""


def find_topology_shortage(
    counts: Counts, filtered: FilterResult, table: NodeTable, request: TopologyRequest
) -> TopologyShortage:
    """Returns the shortage of a role of which `counts` (int64[N]) replicas fit on each node."""
    number = level_number(table, request.level)
    if number is None:
        return TopologyShortage(request, -1, 0, 0, "", 0, ())
    level = levels_of(table)[number]
    room = np.add.reduceat(counts, level.bounds[:-1])
    able = np.flatnonzero(_any(filtered.mask, level.bounds) & level.has_name)
    excluded = _excluded_domains(filtered, level.bounds, level.has_name)
    if not len(able):
        return TopologyShortage(request, number, 0, 0, "", 0, excluded)
    there = room[able]
    if request.spread:
        fits, decides = int(np.minimum(there, there.min() + 1).sum()), there.argmin()
    elif request.slice:
        fits, decides = int((there // request.slice).sum()) * request.slice, there.argmax()
    else:
        fits, decides = int(there.max()), there.argmax()
    domain = able[decides]
    name = domain_name(table, number, int(level.bounds[domain]))
    return TopologyShortage(request, number, len(able), fits, name, int(room[domain]), excluded)


def check_topology_request(table: NodeTable, demands: Sequence[Demand]) -> str:
    """Returns the fault of a gang's topology request, with its fix, or "".

    Without nodes, any level is accepted, and any preferred level if the cluster has no topology.
    """
    request, known = demands[0].topology, table.topology.levels
    if request is None:
        return ""
    if request.level not in known and table.nodes and (request.required or known):
        close = get_close_matches(request.level, known, n=1)
        hint = (
            f"did you mean {close[0]}?" if close else f"its levels are {', '.join(known)}" if known else "it has none"
        )
        return f"the cluster's topology has no level {request.level}; {hint}"
    if request.slice < 0 or (request.slice and request.spread):
        return "topology: slice must be at least 1 and cannot be combined with spread"
    sizes = ((demand.role, size) for demand in demands for size in (demand.count, demand.min_count, demand.max_count))
    for role, size in sizes:
        if request.slice and size % request.slice:
            return f"{size} replicas of {role}: {size} is not a multiple of the slice size {request.slice}"
    return ""


def format_request(request: TopologyRequest) -> str:
    """Formats the request: "in one rack", "spread evenly by rack", "in slices of 8, each in one rack"."""
    if request.spread:
        return f"spread evenly by {request.level}"
    return f"in slices of {request.slice}, each in one {request.level}" if request.slice else f"in one {request.level}"


def format_room(shortage: TopologyShortage) -> str:
    """Formats the available room: "room for at most 12 in one of 40 racks (b1/r3)"."""
    level, size = shortage.request.level, shortage.request.slice
    if shortage.level < 0:
        return f"the cluster's topology has no level {level}"
    if not shortage.domains:
        return f"no {level} that it could use"
    there = format_count(shortage.domains, level)
    if shortage.request.spread:
        return f"room for {shortage.fits}, as the fullest of {there} ({shortage.limiting_domain}) takes {shortage.room}"
    if size:
        return f"room for {format_count(shortage.fits // size, 'slice')} in {there}"
    return f"room for at most {shortage.room} in one of {there} ({shortage.limiting_domain})"


def _any(mask: Mask, bounds: Bounds) -> Mask:
    there: Mask = np.logical_or.reduceat(mask, bounds[:-1])
    return there


def _excluded_domains(filtered: FilterResult, bounds: Bounds, named: Mask) -> tuple[CauseCount, ...]:
    last = np.maximum.reduceat(filtered.lost, bounds[:-1])
    gone = Counter(last[~_any(filtered.mask, bounds) & named].tolist())
    return tuple(CauseCount(cause, gone[number]) for number, cause in enumerate(filtered.causes) if gone[number])
