"""Nodes on which only brief gangs fill gaps, while somebody waits who has waited long.

A reservation is made by walltimes, most of which are several times too long, and who ends before it may pass: for hours
in which the first gang could have started. Keeping its nodes idle instead costs more than it gives wherever everybody
waits long. So a share of the nodes is guarded_before, those that are empty soonest, and brief gangs may use them: a
gang is held up by those for no longer than they last. The constants are chosen by experiment:
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
"""The longest walltime, in ms, with which a gang may start there."""
_NODES_PER_SPARE = 10
"""Of so many nodes that a gang could use one is guarded_before."""


def has_waited_long(policy: Policy, gang: PendingGang, now: int) -> bool:
    """Whether nodes are to be guarded_before for a gang that has to wait; `now` in ms."""
    return can_guard_against_starvation(policy) and 0 < policy.starvation_guard <= now - gang.since


def is_brief(gang: PendingGang) -> bool:
    """Whether it may fill a gap there."""
    return gang.walltime is not None and gang.walltime <= BRIEF_WALLTIME_MS


class GuardedNodes(NamedTuple):
    """What is guarded_before in a plan so far."""

    nodes: Mask
    """bool[N]: the nodes."""
    among: Mask
    """bool[N]: those that the gangs could use for which these are guarded_before."""

    @property
    def any(self) -> bool:
        """Whether it is any node."""
        return bool(self.nodes.any())


def select_guarded_nodes(
    table: NodeTable,
    demands: Sequence[Demand],
    reserved: Placed,
    contended: Mask | None,
    last_ends: NDArray[np.int64],
    guarded_before: GuardedNodes,
) -> Mask | None:
    """bool[N]: what is guarded_before for a gang beside what is guarded_before already. None: no node.

        It is a tenth of the nodes that it could use, outside those for which others wait (`contended`), and never more
    than a tenth of all that anybody could use for whom nodes are guarded_before. `last_ends` (int64[N]): when everybody
    will have left a node. A gang that has been reserved more nodes than it would have then is not helped by it.
    """
    open_to = np.ones(len(table.nodes), dtype=np.bool_) if contended is None else ~contended
    masks = [eligibility(table, demand).mask & open_to for demand in demands]
    usable = np.logical_or.reduce(masks)
    # 1. how many
    alone = _tenth(usable) - _count(usable & guarded_before.nodes)
    count = min(alone, _tenth(guarded_before.among | usable) - _count(guarded_before.nodes))
    # 2. which would do: those where it has been reserved its place, or of their kind
    like = np.logical_or.reduce([_like(table, demand, reserved.placement) & open_to for demand in demands])
    rows = np.flatnonzero(like & ~guarded_before.nodes)
    count = min(count, len(rows))
    if count <= 0 or count + _count(like & guarded_before.nodes) < len(reserved.grant.rows):
        return None
    # 3. those that are free soonest, but who asks for no devices leaves nodes that have some to others
    order = np.lexsort((last_ends[rows], _wasted(table, demands)[rows]))
    guarded = np.zeros(len(table.nodes), dtype=np.bool_)
    guarded[rows[order[:count]]] = True
    return guarded


def _tenth(mask: Mask) -> int:
    return _count(mask) // _NODES_PER_SPARE


def _count(mask: Mask) -> int:
    return int(np.count_nonzero(mask))


def _like(table: NodeTable, demand: Demand, placement: Placement) -> Mask:
    """bool[N]: the nodes of the model that it has been reserved, in the domains that it may not leave."""
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
    """bool[N]: the nodes with devices, of which no role that could go there wants any."""
    devices = [column for column, name in enumerate(table.axis) if is_device(name)]
    wasted: Mask = np.logical_or.reduce(table.capacity[:, devices] > 0, axis=1)
    for demand in demands:
        if any(amount and is_device(name) for name, amount in demand.resources.items()):
            wasted &= ~eligibility(table, demand).mask
    return wasted
