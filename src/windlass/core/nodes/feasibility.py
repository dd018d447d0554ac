"""Feasibility: the nodes on which a replica can run, as masks, and the number of nodes excluded by each cause.

Results are cached in the node table: masks by selector, tolerations and the node sizes that suffice, so that requests
that differ only in size share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.devices import Devices
from windlass.core.model.gang import Demand
from windlass.core.model.reasons import CauseCount
from windlass.core.model.resources import GPU_MILLI, MAX_AMOUNT, WHOLE, is_exclusive
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
"""(column, amount) of every resource that a replica requests, in the order of the columns, without zeros."""

TOO_SMALL = "too small"
FULL = "full"
_MAX_KNOWN = 32_768
"""Number of demands cached by object identity, which is much faster than by value."""


@dataclass(frozen=True, slots=True, eq=False)
class FilterResult:
    """Result of all filters on N nodes of F sizes."""

    mask: Mask
    """bool[N]; read-only."""
    eligible: int
    """Number of eligible nodes."""
    sizes: tuple[int, ...]
    """Number of eligible nodes of each of the F sizes."""
    lost: NDArray[np.int16]
    """int16[N]: index into `causes` of the first cause that excludes the node, or -1."""
    causes: tuple[str, ...]
    counts: tuple[CauseCount, ...]
    """Excluded nodes by first cause, in the order in which causes are checked."""


@dataclass(frozen=True, slots=True, eq=False)
class Eligibility:
    """The nodes on which one replica would fit if they were empty, and its request."""

    filter_result: FilterResult
    request: Request
    room: tuple[int, ...]
    """Number of replicas that fit on an empty node of each of the F sizes; at most MAX_AMOUNT."""
    request_by_column: NDArray[np.int64]
    """int64[R]: the request by column."""
    compared_columns: tuple[int, ...]
    """Columns by which best fit compares nodes: without single GPUs and exclusive resources, if any node has others."""
    per_node: int = MAX_AMOUNT
    """Maximum number of replicas on one node: 1 for a replica that needs a node, or an exclusive resource of it, to
    itself.
    """
    gpu_part: str = ""
    """The resource that requests parts of GPUs."""
    gpu_milli: int = 0
    """Requested thousandths of one GPU."""
    devices: Devices | None = None
    """Device columns; None: it requests no thousandths."""
    capacity: Amounts | None = None
    """int64[N, R]: capacity of the nodes, for a replica that needs one to itself: only empty nodes are feasible."""

    @property
    def mask(self) -> Mask:
        """bool[N]; read-only."""
        return self.filter_result.mask


@dataclass(frozen=True, slots=True, eq=False)
class NodeSizes:
    """The F different capacities of a table's N nodes."""

    amounts: Amounts
    """int64[F, R]"""
    of_node: NDArray[np.intp]
    """int[N]"""


def eligibility(table: NodeTable, demand: Demand) -> Eligibility:
    """Returns the nodes that a replica of `demand` may use."""
    known: dict[int, tuple[Demand, Eligibility]] | None = table.derived.get("by identity")
    if known is None or len(known) >= _MAX_KNOWN:
        known = cache_answer(table, "by identity", {})
    pair = known.get(id(demand))  # the demand is kept with the result, so that its id is not reused
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
    """Returns the request without one of each exclusive resource that has no column in the table."""
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
    each = np.zeros(len(table.resource_names), dtype=np.int64)
    for column, amount in request:
        each[column] = amount
    return Eligibility(
        filter_result=_filter(table, requirements, room > 0),
        request=request,
        room=tuple(room.tolist()),
        request_by_column=each,
        compared_columns=_columns_in_use(table),
        per_node=per_node,
        gpu_part=requirements.part,
        gpu_milli=demand.resources.get(GPU_MILLI, 0),
        devices=table.devices if demand.resources.get(GPU_MILLI, 0) else None,
        capacity=table.capacity if demand.whole_node else None,
    )


def _columns_in_use(table: NodeTable) -> tuple[int, ...]:
    found: tuple[int, ...] | None = table.derived.get("columns in use")
    if found is None:
        visible = len(table.resource_names) if table.devices is None else table.devices.first
        had = table.capacity[:, :visible].any(axis=0)
        had &= np.array([not is_exclusive(name) for name in table.resource_names[:visible]], dtype=np.bool_)
        found = cache_answer(table, "columns in use", tuple(np.flatnonzero(had).tolist()) or (0,))
    return found


def room_by_resource(able: Eligibility, free: Amounts, most: int, rows: Mask | None = None) -> list[Counts]:
    """Returns, per requested resource, int64[M]: replicas that fit on each node by that resource alone, at most `most`.

    `free` (int64[M, R]) has the rows of the nodes in `rows` (bool[N]), or of all. A replica that needs a node to itself
    fits on no node that is in use, whatever the resource.
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
    """Returns int64[N]: replicas that fit on each node now, at most `most`; 0 on excluded and closed nodes."""
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
    return np.maximum(counts, 0, out=counts)  # free capacity is negative on a node that shrank


def _room_for_one(free: Amounts, able: Eligibility, mask: Mask) -> Counts:
    """Returns the same for a single replica, the most frequent case: comparing is faster than dividing."""
    fits = mask.copy()
    for column, amount in able.request:
        fits &= free[:, column] >= amount
    if able.devices is not None:
        fits &= (free[:, able.devices.columns] >= able.gpu_milli).any(axis=1) & able.devices.milli
    if able.capacity is not None:
        fits &= (free >= able.capacity).all(axis=1)
    return fits.astype(np.int64)


def _room(able: Eligibility, free: Amounts, column: int, amount: int, rows: Mask | None) -> Counts:
    """Returns int64[M] by one resource. A part of a GPU must be on one GPU, so parts are counted per GPU."""
    devices = able.devices
    if devices is None or column != devices.gpu_milli:
        return free[:, column] // amount
    milli = devices.milli if rows is None else devices.milli[rows]
    counts: Counts = (free[:, devices.columns] // amount).sum(axis=1)
    return counts * milli


def room_when_empty(able: Eligibility, most: int) -> int:
    """Returns the number of replicas that fit on the eligible nodes when empty, at most `most` on each."""
    if most == 1:
        return able.filter_result.eligible
    # sizes are few, and plain numbers are then faster than arrays
    return sum([nodes * (min(most, room)) for room, nodes in zip(able.room, able.filter_result.sizes, strict=True)])


def with_all_nodes_up(table: NodeTable) -> NodeTable:
    """Returns the same nodes, all of them ready and none cordoned."""
    found: NodeTable | None = table.derived.get("restored")
    if found is None:
        nodes = tuple(replace(node, ready=True, cordoned="") for node in table.nodes)
        back = replace(table, nodes=nodes, usable=np.ones(len(nodes), dtype=np.bool_), derived={}, constraint_masks={})
        found = cache_answer(table, "restored", back)
    return found


def request_of(table: NodeTable, resources: Mapping[str, int]) -> Request:
    """Returns the request by column, without resources that no node can have, by name or by amount."""
    requested = [(column, resources.get(name, 0)) for column, name in enumerate(table.resource_names)]
    return tuple([part for part in requested if 0 < part[1] <= MAX_AMOUNT])


def node_sizes(table: NodeTable) -> NodeSizes:
    """Returns the different sizes of the nodes."""
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
        if table.resource_names[column] == GPU_MILLI
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


def _counts(lost: NDArray[np.int16], causes: tuple[str, ...]) -> tuple[CauseCount, ...]:
    nodes = np.bincount(lost + 1, minlength=len(causes) + 1)[1:].tolist()
    return tuple(CauseCount(cause, number) for cause, number in zip(causes, nodes, strict=True) if number)
