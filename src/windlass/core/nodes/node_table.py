"""Construction of the node table: nodes as dense arrays."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.devices import Devices, derive_resources, device_layout, full_devices, names_of_shared
from windlass.core.model.node import MILLI, Node, Topology
from windlass.core.model.resources import CPU, GPU, GPU_MILLI, MAX_AMOUNT, MEMORY, is_device, is_exclusive
from windlass.core.model.snapshot import Amounts, NodeTable

_DIGITS = re.compile(r"([0-9]+)")


def build_table(nodes: Iterable[Node], topology: Topology, epoch: int, contended: Collection[str] = ()) -> NodeTable:
    """Builds a table: one row per node, sorted by topology place, then name (numbers by value: n2 before n10).

    `contended`: exclusive resources that several gangs request; each has a column.
    """
    ordered = tuple(sorted(nodes, key=lambda node: _sort_key(node, topology)))
    resource_names = resource_names_of(ordered, contended)
    devices = device_layout(ordered, resource_names)
    return NodeTable(
        epoch=epoch,
        resource_names=resource_names,
        topology=topology,
        nodes=ordered,
        row={node.name: row for row, node in enumerate(ordered)},
        capacity=_capacity(ordered, resource_names, devices),
        usable=np.array([node.ready and not node.cordoned for node in ordered], dtype=np.bool_),
        domains=_domains(ordered, topology),
        devices=devices,
    )


def update_table(
    before: NodeTable, nodes: Iterable[Node], topology: Topology, epoch: int, contended: Collection[str] = ()
) -> NodeTable:
    """Returns the same as `build_table`, faster if few nodes are other objects than in the table before.

    It builds a new table if places, resource names or contended resources differ; otherwise `row` is the same object as
    before. Constraint masks are kept if labels and taints are unchanged, too.
    """
    given = tuple(nodes)
    if not frozenset(contended) <= before.column.keys():
        return build_table(given, topology, epoch, contended)
    rows = _changed_rows(before, given) if topology == before.topology and before.devices is None else None
    if rows is None:
        return build_table(given, topology, epoch, contended)
    if not rows:
        return before
    ordered, capacity, usable = list(before.nodes), before.capacity.copy(order="F"), before.usable.copy()
    for row, node in rows.items():
        ordered[row] = node
        capacity[row] = [_amount(node, name) for name in before.resource_names]
        usable[row] = node.ready and not node.cordoned
    capacity.flags.writeable = False
    keeps_masks = all(_has_equal_constraints(before.nodes[row], node) for row, node in rows.items())
    return replace(
        before,
        epoch=epoch,
        nodes=tuple(ordered),
        capacity=capacity,
        usable=usable,
        derived={},
        constraint_masks=before.constraint_masks if keeps_masks else {},
    )


def _has_equal_constraints(one: Node, other: Node) -> bool:
    return one.labels == other.labels and one.taints == other.taints


def _changed_rows(before: NodeTable, nodes: Sequence[Node]) -> dict[int, Node] | None:
    """Returns the changed nodes by row; None if more than capacity, state, labels or taints of nodes has changed."""
    if len(nodes) != len(before.nodes):
        return None
    found: dict[int, Node] = {}
    for node in nodes:
        row = before.row.get(node.name)
        if row is None:
            return None
        was = before.nodes[row]
        if was is not node:
            if node.sharing or was.place != node.place or was.capacity.keys() != node.capacity.keys():
                return None
            found[row] = node
    return found


def natural_sort_key(text: str) -> tuple[object, ...]:
    """Returns a sort key under which numbers in names sort by value."""
    return tuple(_by_value(part) if odd % 2 else part for odd, part in enumerate(_DIGITS.split(text)))


def _by_value(digits: str) -> tuple[int, str]:
    """Returns a sort key: a longer number is larger. Avoids int(), which rejects numbers of thousands of digits."""
    significant = digits.lstrip("0")
    return len(significant), significant


def resource_names_of(nodes: Sequence[Node], contended: Collection[str] = ()) -> tuple[str, ...]:
    """Returns the resources that any node has: GPUs, then other devices, because they are scarce; then cpu, memory.

    Then follow other supplies, contended exclusive resources, and the single GPUs of nodes that share theirs.
    """
    shared, single = names_of_shared(nodes)
    named = sorted(({name for node in nodes for name in node.capacity} | shared) - {GPU, CPU, MEMORY})
    named = [name for name in named if not is_exclusive(name)]
    devices = [name for name in named if is_device(name)]
    supplies = [name for name in named if not is_device(name)]
    return GPU, *devices, CPU, MEMORY, *supplies, *sorted(contended), *single


def _capacity(nodes: Sequence[Node], resource_names: tuple[str, ...], devices: Devices | None) -> Amounts:
    supplies = {name: column for column, name in enumerate(resource_names) if not is_exclusive(name)}
    exclusives = {name: column for column, name in enumerate(resource_names) if is_exclusive(name)}
    table = np.ones((len(nodes), len(resource_names)), dtype=np.int64, order="F")
    amounts = [[_amount(node, name) for name in supplies] for node in nodes]
    table[:, list(supplies.values())] = np.array(amounts, dtype=np.int64).reshape(len(nodes), len(supplies))
    for row, node in enumerate(nodes):
        table[row, [exclusives[name] for name in node.exclusive_in_use if name in exclusives]] = 0
    if devices is not None:
        table[:, devices.columns] = full_devices(nodes, devices)
        derive_resources(devices, table, np.arange(len(nodes)))
    table.flags.writeable = False
    return table


def _amount(node: Node, name: str) -> int:
    """Returns a node's amount. Only sharing nodes have parts of GPUs, and they have no whole ones as a capacity."""
    if (name == GPU and node.sharing) or (name == GPU_MILLI and node.sharing != MILLI):
        return 0
    if is_exclusive(name):
        return int(name not in node.exclusive_in_use)
    return min(node.capacity.get(name, 0), MAX_AMOUNT)


def _sort_key(node: Node, topology: Topology) -> tuple[object, ...]:
    # The names themselves, too: racks 1 and 01 differ, and each must be one contiguous range of rows.
    return (
        tuple((natural_sort_key(name), name) for name in _place(node, topology)),
        natural_sort_key(node.name),
        node.name,
    )


def _place(node: Node, topology: Topology) -> tuple[str, ...]:
    return (*node.place, *("" for _ in topology.levels))[: len(topology.levels)]


def _domains(nodes: Sequence[Node], topology: Topology) -> NDArray[np.int32]:
    """Returns the domain numbers. A domain is a prefix of a place: rack 1 of block a is not rack 1 of block b."""
    levels = len(topology.levels)
    numbers = np.zeros((len(nodes), levels), dtype=np.int32)
    for level in range(levels):
        seen: dict[tuple[str, ...], int] = {}
        for row, node in enumerate(nodes):
            numbers[row, level] = seen.setdefault(_place(node, topology)[: level + 1], len(seen))
    return numbers
