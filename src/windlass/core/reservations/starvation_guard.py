"""The starvation guard: nodes on which only short gangs fill gaps while a gang has waited for long.

A reservation is computed from walltimes, most of which are several times too long, and a gang that ends before the
reservation may pass: for hours in which the first gang could have started. Idle nodes instead would cost more than they
give where every gang waits long. So a share of the nodes, those that become empty first, is guarded: only short gangs
may use them, which delay the first gang at most by their own duration. The constants were chosen by experiment:
docs/design/scheduling.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.gang import Demand, PendingGang
from windlass.core.model.policy import Policy
from windlass.core.model.resources import is_device
from windlass.core.model.snapshot import NodeTable
from windlass.core.model.status import Placement
from windlass.core.nodes.feasibility import eligibility
from windlass.core.nodes.node_filters import Mask
from windlass.core.nodes.topology_domains import level_number
from windlass.core.placement.gang_placement import Placed, by_gpu_type
from windlass.core.queues.orders.registry import can_guard_against_starvation

BRIEF_WALLTIME_MS = 7_200_000
"""Longest walltime, in ms, with which a gang may start on a guarded node."""
_NODES_PER_SPARE = 10
"""One node in this number of a gang's usable nodes is guarded."""


def has_waited_long(policy: Policy, gang: PendingGang, now: int) -> bool:
    """Tells whether nodes are guarded for a waiting gang; `now` in ms."""
    return can_guard_against_starvation(policy) and 0 < policy.starvation_guard <= now - gang.since


def is_brief(gang: PendingGang) -> bool:
    """Tells whether a gang may fill a gap on a guarded node."""
    return gang.walltime is not None and gang.walltime <= BRIEF_WALLTIME_MS


class GuardedNodes(NamedTuple):
    """The guarded nodes of a plan so far."""

    nodes: Mask
    """bool[N]: guarded nodes."""
    among: Mask
    """bool[N]: nodes usable by the gangs for which these are guarded."""

    @property
    def any(self) -> bool:
        """Tells whether any node is guarded."""
        return bool(self.nodes.any())


def select_guarded_nodes(
    table: NodeTable,
    demands: Sequence[Demand],
    reserved: Placed,
    contended: Mask | None,
    last_ends: NDArray[np.int64],
    guarded_before: GuardedNodes,
) -> Mask | None:
    """Returns bool[N]: nodes to guard for a gang in addition to those already guarded. None: no node.

    It is a tenth of the nodes that the gang could use, outside those that others contend for (`contended`), and never
    more than a tenth of all nodes usable by gangs with guarded nodes. `last_ends` (int64[N]): when the last gang leaves
    each node. A gang whose reservation has more nodes than would be guarded is not helped by them.
    """
    open_to = np.ones(len(table.nodes), dtype=np.bool_) if contended is None else ~contended
    masks = [eligibility(table, demand).mask & open_to for demand in demands]
    usable = np.logical_or.reduce(masks)
    # 1. the number
    alone = _tenth(usable) - _count(usable & guarded_before.nodes)
    count = min(alone, _tenth(guarded_before.among | usable) - _count(guarded_before.nodes))
    # 2. the candidates: the reserved nodes, or nodes of their kind
    like = np.logical_or.reduce([_like(table, demand, reserved.placement) & open_to for demand in demands])
    rows = np.flatnonzero(like & ~guarded_before.nodes)
    count = min(count, len(rows))
    if count <= 0 or count + _count(like & guarded_before.nodes) < len(reserved.grant.rows):
        return None
    # 3. those that are free soonest; a gang without devices leaves nodes with devices to others
    order = np.lexsort((last_ends[rows], _wasted(table, demands)[rows]))
    guarded = np.zeros(len(table.nodes), dtype=np.bool_)
    guarded[rows[order[:count]]] = True
    return guarded


def _tenth(mask: Mask) -> int:
    return _count(mask) // _NODES_PER_SPARE


def _count(mask: Mask) -> int:
    return int(np.count_nonzero(mask))


def _like(table: NodeTable, demand: Demand, placement: Placement) -> Mask:
    """Returns bool[N]: nodes of the reserved model, in the domains that the gang may not leave."""
    rows = [table.row[name] for name in placement.nodes[demand.role]]
    models = (eligibility(table, one).mask for (one,) in by_gpu_type([demand]))
    mask = next((mask for mask in models if mask[rows].all()), eligibility(table, demand).mask)
    near = demand.topology
    level = level_number(table, near.level) if near is not None and (near.required or near.slice) else None
    if level is None:
        return mask
    domains = table.domains[:, level]
    return mask & np.isin(domains, domains[rows])


def _wasted(table: NodeTable, demands: Sequence[Demand]) -> Mask:
    """Returns bool[N]: nodes with devices that no role of the gang requests."""
    devices = [column for column, name in enumerate(table.resource_names) if is_device(name)]
    wasted: Mask = np.logical_or.reduce(table.capacity[:, devices] > 0, axis=1)
    for demand in demands:
        if any(amount and is_device(name) for name, amount in demand.resources.items()):
            wasted &= ~eligibility(table, demand).mask
    return wasted
