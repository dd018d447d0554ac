"""Which nodes a replica may go to, by masks, and how many nodes are lost to each cause.

What has been worked out is kept in the node table: masks by selector, tolerations and the kinds of node that are large
enough, so that requests which differ in size alone share them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.devices import WHOLE, Devices
from windlass.core.model.gang import Demand
from windlass.core.model.job import Match, Toleration
from windlass.core.model.node import Taint
from windlass.core.model.reasons import Count
from windlass.core.model.resources import GPU_MILLI, GPU_TYPE, MAX_AMOUNT
from windlass.core.model.snapshot import Amounts, NodeTable
from windlass.core.nodes import affinity
from windlass.core.nodes.device_assignment import asks_for_gpus, gpu_part_of

Mask: TypeAlias = NDArray[np.bool_]
Counts: TypeAlias = NDArray[np.int64]
Request: TypeAlias = tuple[tuple[int, int], ...]
"""(column, amount) of every resource a replica asks for, in the axis' order, zeros left out."""

AVOIDED = "avoided"
NOT_READY = "not ready"
CORDONED = "cordoned"
NOT_SHARED = "not shared"
TOO_SMALL = "too small"
FULL = "full"
_PASSES = -1
_KEPT = 32_768
_KEPT_CELLS = 2**25
"""How many answers a node table keeps before it forgets them all, and how many if each had a cell per node."""
_KNOWN = 32_768
"""How many demands are known by being the same object, which is much quicker than by what they say."""


class NodeRequirements(NamedTuple):
    """Which kind of node is asked for, apart from its size."""

    selector: tuple[tuple[str, str], ...]
    """By label."""
    tolerations: tuple[Toleration, ...]
    affinity: tuple[tuple[Match, ...], ...] = ()
    gpu_types: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    part: str = ""
    """The resource by which parts of GPUs are asked for."""


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
    """The columns that tell nodes apart: those people speak of, not single GPUs, and of which some node has any."""
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
    kind = requirements_of(demand)
    key = ("eligible", tuple(sorted(demand.resources.items())), kind, demand.whole_node)
    found: Eligibility | None = table.derived.get(key)
    return _eligibility(table, demand, kind, key) if found is None else found


def _eligibility(table: NodeTable, demand: Demand, kind: NodeRequirements, key: object) -> Eligibility:
    request = request_of(table, demand.resources)
    room = _room_by_size(table, demand.resources, request)
    if demand.whole_node:
        room = np.minimum(room, 1)
    each = np.zeros(len(table.axis), dtype=np.int64)
    for column, amount in request:
        each[column] = amount
    able = Eligibility(
        screen=_screen(table, kind, room > 0),
        request=request,
        room=tuple(room.tolist()),
        each=each,
        ranked=_ranked(table),
        part=kind.part,
        milli=demand.resources.get(GPU_MILLI, 0),
        devices=table.devices if demand.resources.get(GPU_MILLI, 0) else None,
        capacity=table.capacity if demand.whole_node else None,
    )
    return cache_answer(table, key, able)


def _ranked(table: NodeTable) -> tuple[int, ...]:
    found: tuple[int, ...] | None = table.derived.get("ranked")
    if found is None:
        spoken_of = len(table.axis) if table.devices is None else table.devices.first
        had = table.capacity[:, :spoken_of].any(axis=0)
        found = cache_answer(table, "ranked", tuple(np.flatnonzero(had).tolist()) or (0,))
    return found


def requirements_of(demand: Demand) -> NodeRequirements:
    """Which kind of node is asked for, apart from its size. GPU types matter to roles that ask for GPUs."""
    selector = tuple(sorted(demand.node_selector.items())) if demand.node_selector else ()
    types = demand.gpu_types if demand.gpu_types and asks_for_gpus(demand.resources) else ()
    return NodeRequirements(
        selector, demand.tolerations, demand.affinity, types, demand.avoid, gpu_part_of(demand.resources)
    )


def room_by_resource(able: Eligibility, free: Amounts, most: int, rows: Mask | None = None) -> list[Counts]:
    """For each resource asked for, int64[M]: replicas each node could take if that were the only one, at most `most`.

    `free` (int64[M, R]) is of the nodes that `rows` (bool[N]) leaves, or of all. Whoever wants a node to itself finds
    room on none that is in use, whatever the resource.
    """
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
        back = replace(table, nodes=nodes, usable=np.ones(len(nodes), dtype=np.bool_), derived={})
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

Losses: TypeAlias = list[tuple[str, Mask]]


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


def _screen(table: NodeTable, kind: NodeRequirements, large: Mask) -> FilterResult:
    """Each node is lost to the first cause in this order.

    label, affinity, gpu-type, taint, avoided, not ready, cordoned, not shared, too small
    """
    key = ("screen", kind, large.tobytes())
    found: FilterResult | None = table.derived.get(key)
    if found is None:
        of_node = node_sizes(table).of_node
        losses = [
            *_losses_to_labels(table, kind),
            *_losses_to_taints(table, kind.tolerations),
            *_losses_to_choice(table, kind.avoid),
            *_losses_of_state(table),
            *_losses_to_sharing(table, kind.part),
            (TOO_SMALL, ~large[of_node]),
        ]
        lost = np.full(len(table.nodes), _PASSES, dtype=np.int16)
        for number, (_, bad) in reversed(list(enumerate(losses))):
            lost[bad] = number
        mask = lost == _PASSES
        mask.flags.writeable = False
        causes = tuple(cause for cause, _ in losses)
        by_size = tuple(np.bincount(of_node[mask], minlength=len(large)).tolist())
        found = cache_answer(
            table, key, FilterResult(mask, int(mask.sum()), by_size, lost, causes, _counts(lost, causes))
        )
    return found


def _counts(lost: NDArray[np.int16], causes: tuple[str, ...]) -> tuple[Count, ...]:
    nodes = np.bincount(lost + 1, minlength=len(causes) + 1)[1:].tolist()
    return tuple(Count(cause, number) for cause, number in zip(causes, nodes, strict=True) if number)


def _losses_to_labels(table: NodeTable, kind: NodeRequirements) -> Iterator[tuple[str, Mask]]:
    for name, value in kind.selector:
        yield f"label {name}={value}", _lacks_label(table, name, value)
    if kind.affinity:
        bad = [not affinity.matches_terms(node.labels, kind.affinity) for node in table.nodes]
        yield f"affinity {affinity.format_terms(kind.affinity)}", np.array(bad, dtype=np.bool_)
    if kind.gpu_types:
        lacks = [_lacks_label(table, GPU_TYPE, gpu_type) for gpu_type in kind.gpu_types]
        yield f"{GPU_TYPE} {' or '.join(kind.gpu_types)}", np.logical_and.reduce(lacks)


def _losses_to_choice(table: NodeTable, avoid: tuple[str, ...]) -> Losses:
    rows = [table.row[name] for name in avoid if name in table.row]
    return [(AVOIDED, _at(table, rows))] if rows else []


def _losses_to_sharing(table: NodeTable, part: str) -> Losses:
    """Parts of GPUs are asked for, and the node has none to give."""
    if not part:
        return []
    column = table.column.get(part)
    return [(NOT_SHARED, np.ones(len(table.nodes), np.bool_) if column is None else table.capacity[:, column] == 0)]


def _losses_of_state(table: NodeTable) -> Losses:
    down = np.array([not node.ready for node in table.nodes], dtype=np.bool_)
    return [(NOT_READY, down), (CORDONED, ~table.usable & ~down)]


def _lacks_label(table: NodeTable, label: str, value: str) -> Mask:
    key = ("label", label, value)
    found: Mask | None = table.derived.get(key)
    if found is None:
        lacks = np.array([node.labels.get(label) != value for node in table.nodes], dtype=np.bool_)
        found = cache_answer(table, key, lacks)
    return found


def _losses_to_taints(table: NodeTable, tolerations: tuple[Toleration, ...]) -> Losses:
    """One loss per taint that keeps a replica away and is not tolerated."""
    key = ("taints", tolerations)
    found: Losses | None = table.derived.get(key)
    if found is None:
        rows: dict[Taint, list[int]] = {}
        for row, node in enumerate(table.nodes):
            for taint in node.taints:
                rows.setdefault(taint, []).append(row)
        bad = sorted((taint for taint in rows if not is_tolerated(taint, tolerations)), key=_named)
        found = cache_answer(table, key, [(_named(taint), _at(table, rows[taint])) for taint in bad])
    return found


def is_tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    """Whether a taint keeps nobody away, or not this one. Source: Kubernetes, Toleration.ToleratesTaint."""
    return taint.effect == "PreferNoSchedule" or any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def _named(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"taint {taint.key}{value}:{taint.effect}"


def _at(table: NodeTable, rows: list[int]) -> Mask:
    mask = np.zeros(len(table.nodes), dtype=np.bool_)
    mask[rows] = True
    return mask


_Answer = TypeVar("_Answer")


def cache_answer(table: NodeTable, key: object, answer: _Answer) -> _Answer:
    """Keep what was worked out of the table's fields alone, and return it."""
    if len(table.derived) >= min(_KEPT, _KEPT_CELLS // (1 + len(table.nodes))):
        table.derived.clear()
    table.derived[key] = answer
    return answer
