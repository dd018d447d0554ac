"""Which nodes a replica may go to, by masks, and how many nodes are lost to each cause.

What has been worked out is kept in the node table: masks by selector, tolerations and the kinds of node that are large
enough, so that requests which differ in size alone share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.devices import WHOLE, Devices
from windlass.core.model.gang import Demand
from windlass.core.model.reasons import Count
from windlass.core.model.resources import GPU_MILLI, MAX_AMOUNT, is_exclusive
from windlass.core.model.snapshot import Amounts, NodeTable
from windlass.core.nodes.node_filters import (
    PASSES,
    Mask,
    NodeRequirements,
    cache_answer,
    constraint_losses,
    losses_by_exclusives,
    losses_by_sharing,
    losses_by_state,
    requirements_of,
)

Counts: TypeAlias = NDArray[np.int64]
Request: TypeAlias = tuple[tuple[int, int], ...]
"""(column, amount) of every resource a replica asks for, in the axis' order, zeros left out."""

TOO_SMALL = "too small"
FULL = "full"
_KNOWN = 32_768
"""How many demands are known by being the same object, which is much quicker than by what they say."""


@dataclass(frozen=True, slots=True, eq=False)
class FilterResult:
    """What is left of N nodes, of F sizes, once everything that cannot be used is taken out."""

    mask: Mask
    """bool[N]; read-only."""
    eligible: int
    """How many nodes that is."""
    sizes: tuple[int, ...]
    """How many of them have each of the F sizes."""
    lost: NDArray[np.int16]
    """int16[N]: which of `causes` excludes the node first, or -1."""
    causes: tuple[str, ...]
    counts: tuple[Count, ...]
    """Nodes lost, by first cause, in the order in which causes are tried."""


@dataclass(frozen=True, slots=True, eq=False)
class Eligibility:
    """The nodes where one replica would fit if they were empty, and what it asks of them."""

    screen: FilterResult
    request: Request
    room: tuple[int, ...]
    """Replicas that an empty node of each of the F sizes could take; at most MAX_AMOUNT."""
    each: NDArray[np.int64]
    """int64[R]: the request again, by column."""
    ranked: tuple[int, ...]
    """Columns by which best fit compares nodes: without single GPUs and exclusive resources, if any node has any."""
    per_node: int = MAX_AMOUNT
    """Maximum number of replicas on one node: 1 for a replica that wants a node, or something exclusive on it."""
    part: str = ""
    """The resource by which it asks for parts of GPUs."""
    milli: int = 0
    """Thousandths of one GPU that it asks for."""
    devices: Devices | None = None
    """Where these are; None: it asks for none."""
    capacity: Amounts | None = None
    """Of the nodes (int64[N, R]), for a replica that wants one to itself: only those that are empty will do."""

    @property
    def mask(self) -> Mask:
        """bool[N]; read-only."""
        return self.screen.mask


@dataclass(frozen=True, slots=True, eq=False)
class NodeSizes:
    """The F different capacities of a table's N nodes."""

    amounts: Amounts
    """int64[F, R]"""
    of_node: NDArray[np.intp]
    """int[N]"""


def eligibility(table: NodeTable, demand: Demand) -> Eligibility:
    """The nodes a replica of `demand` may use."""
    known: dict[int, tuple[Demand, Eligibility]] | None = table.derived.get("by identity")
    if known is None or len(known) >= _KNOWN:
        known = cache_answer(table, "by identity", {})
    pair = known.get(id(demand))  # the demand is kept beside it, so that its id stays its own
    if pair is None:
        pair = known[id(demand)] = demand, _by_value(table, demand)
    return pair[1]


def _by_value(table: NodeTable, demand: Demand) -> Eligibility:
    requirements = requirements_of(table, demand)
    per_node = 1 if demand.whole_node or any(map(is_exclusive, demand.resources)) else MAX_AMOUNT
    counted = _counted_resources(table, demand.resources) if per_node == 1 else demand.resources
    key = ("eligible", tuple(sorted(counted.items())), requirements, demand.whole_node, per_node)
    found: Eligibility | None = table.derived.get(key)
    if found is None:
        found = cache_answer(table, key, _eligibility(table, demand, counted, requirements, per_node))
    return found


def _counted_resources(table: NodeTable, resources: Mapping[str, int]) -> Mapping[str, int]:
    """The request without one of each exclusive resource that has no column in the table."""
    return {
        name: amount
        for name, amount in resources.items()
        if amount > 1 or not is_exclusive(name) or name in table.column
    }


def _eligibility(
    table: NodeTable, demand: Demand, counted: Mapping[str, int], requirements: NodeRequirements, per_node: int
) -> Eligibility:
    request = request_of(table, counted)
    room = np.minimum(_room_by_size(table, counted, request), per_node)
    each = np.zeros(len(table.axis), dtype=np.int64)
    for column, amount in request:
        each[column] = amount
    return Eligibility(
        screen=_filter(table, requirements, room > 0),
        request=request,
        room=tuple(room.tolist()),
        each=each,
        ranked=_ranked(table),
        per_node=per_node,
        part=requirements.part,
        milli=demand.resources.get(GPU_MILLI, 0),
        devices=table.devices if demand.resources.get(GPU_MILLI, 0) else None,
        capacity=table.capacity if demand.whole_node else None,
    )


def _ranked(table: NodeTable) -> tuple[int, ...]:
    found: tuple[int, ...] | None = table.derived.get("ranked")
    if found is None:
        spoken_of = len(table.axis) if table.devices is None else table.devices.first
        had = table.capacity[:, :spoken_of].any(axis=0)
        had &= np.array([not is_exclusive(name) for name in table.axis[:spoken_of]], dtype=np.bool_)
        found = cache_answer(table, "ranked", tuple(np.flatnonzero(had).tolist()) or (0,))
    return found


def room_by_resource(able: Eligibility, free: Amounts, most: int, rows: Mask | None = None) -> list[Counts]:
    """For each resource asked for, int64[M]: replicas each node could take if that were the only one, at most `most`.

    `free` (int64[M, R]) is of the nodes that `rows` (bool[N]) leaves, or of all. Whoever wants a node to itself finds
    room on none that is in use, whatever the resource.
    """
    most = min(most, able.per_node)
    found = [np.minimum(_room(able, free, column, amount, rows), most) for column, amount in able.request]
    if not found:
        found = [np.full(len(free), most)]
    if able.capacity is not None:
        empty = np.all(free >= (able.capacity if rows is None else able.capacity[rows]), axis=1)
        found = [np.minimum(room, empty) for room in found]
    return found


def room_per_node(free: Amounts, able: Eligibility, closed: Mask | None, most: int) -> Counts:
    """int64[N]: how many replicas find room on each node now, at most `most`; none where one may not go."""
    mask = able.mask if closed is None else able.mask & ~closed
    most = min(most, able.per_node)
    if most == 1:
        return _room_for_one(free, able, mask)
    counts: Counts = mask * np.int64(most)
    if able.devices is None and able.capacity is None:
        for column, amount in able.request:
            np.minimum(counts, free[:, column] // amount, out=counts)
    else:
        for room in room_by_resource(able, free, most):
            np.minimum(counts, room, out=counts)
    return np.maximum(counts, 0, out=counts)  # a node may have less than nothing left after it shrank


def _room_for_one(free: Amounts, able: Eligibility, mask: Mask) -> Counts:
    """The same for a single replica, which most gangs are: comparing is quicker than dividing."""
    fits = mask.copy()
    for column, amount in able.request:
        fits &= free[:, column] >= amount
    if able.devices is not None:
        fits &= (free[:, able.devices.columns] >= able.milli).any(axis=1) & able.devices.milli
    if able.capacity is not None:
        fits &= (free >= able.capacity).all(axis=1)
    return fits.astype(np.int64)


def _room(able: Eligibility, free: Amounts, column: int, amount: int, rows: Mask | None) -> Counts:
    """By one resource. Parts of GPUs must each be on one GPU, so they are counted GPU by GPU."""
    devices = able.devices
    if devices is None or column != devices.gpu_milli:
        return free[:, column] // amount
    milli = devices.milli if rows is None else devices.milli[rows]
    counts: Counts = (free[:, devices.columns] // amount).sum(axis=1)
    return counts * milli


def room_when_empty(able: Eligibility, most: int) -> int:
    """How many replicas the eligible nodes could take if they were empty, at most `most` on each."""
    if most == 1:
        return able.screen.eligible
    # sizes are few, and plain numbers then quicker than arrays
    return sum([nodes * (min(most, room)) for room, nodes in zip(able.room, able.screen.sizes, strict=True)])


def with_all_nodes_up(table: NodeTable) -> NodeTable:
    """The same nodes, all of them ready and none cordoned."""
    found: NodeTable | None = table.derived.get("restored")
    if found is None:
        nodes = tuple(replace(node, ready=True, cordoned="") for node in table.nodes)
        back = replace(table, nodes=nodes, usable=np.ones(len(nodes), dtype=np.bool_), derived={}, constraint_masks={})
        found = cache_answer(table, "restored", back)
    return found


def request_of(table: NodeTable, resources: Mapping[str, int]) -> Request:
    """What a replica asks for, by column. What no node can have, for its name or its size, is not in it."""
    asked = [(column, resources.get(name, 0)) for column, name in enumerate(table.axis)]
    return tuple([part for part in asked if 0 < part[1] <= MAX_AMOUNT])


def node_sizes(table: NodeTable) -> NodeSizes:
    """What sizes of node there are."""
    found: NodeSizes | None = table.derived.get("sizes")
    if found is None:
        capacity = table.capacity
        order = np.lexsort(capacity.T[::-1])  # np.unique by rows takes several times as long
        first = np.any(np.diff(capacity[order], axis=0, prepend=-1), axis=1)
        of_node = np.empty(len(order), dtype=np.intp)
        of_node[order] = first.cumsum() - 1
        found = cache_answer(table, "sizes", NodeSizes(np.asfortranarray(capacity[order[first]]), of_node))
    return found


# --- masks ------------------------------------------------------------------------------------------


def _room_by_size(table: NodeTable, resources: Mapping[str, int], request: Request) -> NDArray[np.int64]:
    amounts = node_sizes(table).amounts
    if len(request) < sum(amount > 0 for amount in resources.values()):
        return np.zeros(len(amounts), dtype=np.int64)
    if not request:
        return np.full(len(amounts), MAX_AMOUNT)
    by_resource = [
        amounts[:, column] // WHOLE * (WHOLE // amount)
        if table.axis[column] == GPU_MILLI
        else amounts[:, column] // amount
        for column, amount in request
    ]
    room: NDArray[np.int64] = np.minimum.reduce(by_resource)
    return room


def _filter(table: NodeTable, requirements: NodeRequirements, large: Mask) -> FilterResult:
    """Removes nodes by constraint, then by state, exclusive resources, sharing and size; the first cause counts."""
    key = ("filter", requirements, large.tobytes())
    found: FilterResult | None = table.derived.get(key)
    if found is None:
        of_node = node_sizes(table).of_node
        constrained = constraint_losses(table, requirements)
        losses = [
            *losses_by_state(table),
            *losses_by_exclusives(table, requirements.exclusives),
            *losses_by_sharing(table, requirements.part),
            (TOO_SMALL, ~large[of_node]),
        ]
        lost = constrained.lost.copy()
        passes = lost == PASSES
        for number, (_, bad) in reversed(list(enumerate(losses, start=len(constrained.causes)))):
            lost[passes & bad] = number
        mask = lost == PASSES
        mask.flags.writeable = False
        causes = (*constrained.causes, *(cause for cause, _ in losses))
        by_size = tuple(np.bincount(of_node[mask], minlength=len(large)).tolist())
        found = cache_answer(
            table, key, FilterResult(mask, int(mask.sum()), by_size, lost, causes, _counts(lost, causes))
        )
    return found


def _counts(lost: NDArray[np.int16], causes: tuple[str, ...]) -> tuple[Count, ...]:
    nodes = np.bincount(lost + 1, minlength=len(causes) + 1)[1:].tolist()
    return tuple(Count(cause, number) for cause, number in zip(causes, nodes, strict=True) if number)
