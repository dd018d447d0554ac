"""Single GPUs of nodes that share them: hidden columns of the node table, after those that users see.

For a node that shares in thousandths ("milli"), a GPU's column holds how many of its 1000 are free; for a node that
shares in MIG profiles, it holds the bit mask of its free slices. The amounts of `gpu`, `gpu-milli` and the profiles in
such a row follow from these columns and are derived again whenever they change. A table without sharing nodes has no
such columns and no extra cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from windlass.core.model.mig import MASKS, PREFIX, Geometry, geometry_of
from windlass.core.model.node import MIG, MILLI, Node
from windlass.core.model.resources import GPU, GPU_MILLI, GPU_TYPE, WHOLE

_MARK = "gpu#"


@dataclass(frozen=True, slots=True, eq=False)
class Devices:
    """Columns of D devices in a table, and the way in which each of N nodes shares its own."""

    first: int
    """Column of GPU 0."""
    count: int
    """D: number of GPUs of the largest sharing node."""
    milli: NDArray[np.bool_]
    """bool[N]: the node shares in thousandths."""
    geometry: NDArray[np.int16]
    """int16[N]: index into `geometries` if the node shares by MIG; otherwise -1."""
    geometries: tuple[Geometry, ...]
    profiles: tuple[tuple[int, ...], ...]
    """For each geometry: the columns of its profiles."""
    gpu: int
    gpu_milli: int
    """Columns of the derived resources; -1: the table has none."""

    @property
    def columns(self) -> slice:
        """Columns of the devices."""
        return slice(self.first, self.first + self.count)


def is_hidden(resource: str) -> bool:
    """Tells whether a resource is a device's column, which users never see."""
    return resource.startswith(_MARK)


def gpus_of(node: Node) -> int:
    """Returns the number of a node's devices that have columns of their own."""
    return node.capacity.get(GPU, 0) if node.sharing else 0


def names_of_shared(nodes: Sequence[Node]) -> tuple[set[str], tuple[str, ...]]:
    """Returns the resources that sharing adds to a table: those that jobs request, and the device columns."""
    requested = {GPU_MILLI for node in nodes if node.sharing == MILLI}
    for geometry in _geometries(nodes):
        requested |= {PREFIX + profile.name for profile in geometry.profiles}
    return requested, tuple(f"{_MARK}{number}" for number in range(max(map(gpus_of, nodes), default=0)))


def device_layout(nodes: Sequence[Node], resource_names: Sequence[str]) -> Devices | None:
    """Returns the device columns of a table with these nodes and resources; None: no node shares."""
    numbers = [column for column, name in enumerate(resource_names) if is_hidden(name)]
    if not numbers:
        return None
    column = {name: number for number, name in enumerate(resource_names)}
    geometries = _geometries(nodes)
    number_of = {geometry.model: number for number, geometry in enumerate(geometries)}
    mine = [_geometry(node) for node in nodes]
    return Devices(
        first=numbers[0],
        count=len(numbers),
        milli=np.array([node.sharing == MILLI for node in nodes], dtype=np.bool_),
        geometry=np.array([-1 if g is None else number_of[g.model] for g in mine], dtype=np.int16),
        geometries=geometries,
        profiles=tuple(tuple(column[PREFIX + p.name] for p in geometry.profiles) for geometry in geometries),
        gpu=column[GPU],
        gpu_milli=column.get(GPU_MILLI, -1),
    )


def full_devices(nodes: Sequence[Node], devices: Devices) -> NDArray[np.int64]:
    """Returns int64[N, D]: contents of the device columns when everything is free."""
    amounts = np.zeros((len(nodes), devices.count), dtype=np.int64)
    for row, node in enumerate(nodes):
        geometry = _geometry(node)
        each = WHOLE if node.sharing == MILLI else geometry.whole if geometry else 0
        amounts[row, : gpus_of(node)] = each
    return amounts


def derive_resources(devices: Devices, amounts: NDArray[np.int64], rows: NDArray[np.intp]) -> None:
    """Derives the resources that follow from the device columns, in these rows of `amounts` (int64[N, R]), in place.

    A device of which more is granted than it has (its node has changed) offers nothing.
    """
    milli = rows[devices.milli[rows]]
    if len(milli) == len(rows) == 1:  # most gangs are on one node
        row = int(rows[0])
        left = amounts[row, devices.columns].tolist()
        amounts[row, devices.gpu] = left.count(WHOLE)
        amounts[row, devices.gpu_milli] = sum(part for part in left if part > 0)
        return
    if len(milli):
        parts = amounts[milli, devices.columns]
        amounts[milli, devices.gpu] = np.count_nonzero(parts == WHOLE, axis=1)
        amounts[milli, devices.gpu_milli] = np.maximum(parts, 0).sum(axis=1)
    for number, geometry in enumerate(devices.geometries):
        mine = rows[devices.geometry[rows] == number]
        if len(mine):
            masks = np.clip(amounts[mine, devices.columns], 0, MASKS - 1)
            amounts[np.ix_(mine, devices.profiles[number])] = geometry.instances_left[masks].sum(axis=1)


def _geometry(node: Node) -> Geometry | None:
    return geometry_of(node.labels.get(GPU_TYPE, "")) if node.sharing == MIG else None


def _geometries(nodes: Sequence[Node]) -> tuple[Geometry, ...]:
    """Returns the geometries of the nodes, each once, sorted by model."""
    found = {geometry.model: geometry for node in nodes if (geometry := _geometry(node))}
    return tuple(found[model] for model in sorted(found))
