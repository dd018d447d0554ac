"""Assignment of a node's GPUs to replicas, on nodes that share them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import TypeAlias

from windlass.core.model.devices import Devices
from windlass.core.model.gang import Demand
from windlass.core.model.mig import PREFIX, Geometry, gpu_and_start, instance_number
from windlass.core.model.resources import GPU, GPU_MILLI, WHOLE
from windlass.core.model.snapshot import NodeTable

Numbers: TypeAlias = tuple[int, ...]
"""The devices of one replica: GPUs by number, or MIG instances by `mig.instance_number`."""
Choose: TypeAlias = Callable[[Sequence[int], int], int]
"""(thousandths free on each GPU, thousandths requested) → the chosen GPU. At least one has enough."""


def gpu_part_of(resources: Mapping[str, int]) -> str:
    """Returns the resource that requests parts of GPUs, the first by name of several; "": only whole GPUs, or none."""
    return min((name for name in resources if _is_part(name) and resources[name]), default="")


def asks_for_gpus(resources: Mapping[str, int]) -> bool:
    """Tells whether a request has GPUs or parts of them."""
    return resources.get(GPU, 0) > 0 or gpu_part_of(resources) != ""


def tightest_gpu(left: Sequence[int], requested: int) -> int:
    """Returns the GPU with the least left that suffices; the lowest number of equals."""
    return min((amount, number) for number, amount in enumerate(left) if amount >= requested)[1]


def assign_devices(
    table: NodeTable, row: int, left: Sequence[int], demand: Demand, replicas: int, choose: Choose = tightest_gpu
) -> Sequence[Numbers]:
    """Returns devices for each of the replicas on one node, whose devices have `left`.

    Whole GPUs are taken from the lowest number on. The node must have room for the replicas. A node that does not share
    its GPUs assigns none.
    """
    devices = table.devices
    if devices is None or not (devices.milli[row] or devices.geometry[row] >= 0):
        return ((),) * replicas
    now = list(left)
    if demand.whole_node:
        return (_all(devices, row, now),) * replicas
    part = gpu_part_of(demand.resources)
    return [_one(devices, row, now, demand, part, choose) for _ in range(replicas)]


def held_devices(
    table: NodeTable, demand: Demand, names: Sequence[str], numbers: Sequence[Numbers]
) -> Iterator[tuple[int, int, int]]:
    """Yields (row, column, amount) of each device that replicas hold; the lowest numbers where none are recorded."""
    for name, mine in zip(names, numbers or repeat(()), strict=False):
        row = table.row.get(name)
        if row is not None:
            for column, amount in amounts_of(table, row, demand, [mine or _lowest(demand)]):
                yield row, column, amount


def amounts_of(table: NodeTable, row: int, demand: Demand, numbers: Sequence[Numbers]) -> Iterator[tuple[int, int]]:
    """Yields (column, amount) of each device that replicas hold on one node; nothing if it does not share its GPUs."""
    devices = table.devices
    if devices is not None and (devices.milli[row] or devices.geometry[row] >= 0):
        for number in (number for mine in numbers for number in mine):
            gpu, amount = _amount(devices, row, demand, number)
            if gpu < devices.count:
                yield devices.first + gpu, amount


def _is_part(resource: str) -> bool:
    return resource == GPU_MILLI or resource.startswith(PREFIX)


def _one(devices: Devices, row: int, left: list[int], demand: Demand, part: str, choose: Choose) -> Numbers:
    if part == GPU_MILLI:
        number = choose(left, demand.resources[GPU_MILLI])
        left[number] -= demand.resources[GPU_MILLI]
        return (number,)
    if part:
        return _instances(devices.geometries[devices.geometry[row]], left, part, demand.resources[part])
    numbers = tuple([number for number, amount in enumerate(left) if amount == WHOLE][: demand.resources.get(GPU, 0)])
    for number in numbers:
        left[number] = 0
    return numbers


def _all(devices: Devices, row: int, left: Sequence[int]) -> Numbers:
    return tuple(
        number if devices.milli[row] else instance_number(number, 0) for number, amount in enumerate(left) if amount
    )


def _instances(geometry: Geometry, left: list[int], resource: str, count: int) -> Numbers:
    """Returns the instances of one replica: each at the least loss for larger profiles, then on the fullest GPU."""
    profile = geometry.profile(resource)
    found: list[int] = []
    if profile is None:
        return ()
    for _ in range(count):
        able = []
        for gpu, mask in enumerate(left):
            start = geometry.best_start(profile, mask)
            if start is not None:
                loss = geometry.sort_key(mask) - geometry.sort_key(mask - profile.bits(start))
                able.append((loss, mask.bit_count(), gpu, start))
        _, _, gpu, start = min(able)
        left[gpu] -= profile.bits(start)
        found.append(instance_number(gpu, start))
    return tuple(found)


def _lowest(demand: Demand) -> Numbers:
    return (0,) if gpu_part_of(demand.resources) else tuple(range(demand.resources.get(GPU, 0)))


def _amount(devices: Devices, row: int, demand: Demand, number: int) -> tuple[int, int]:
    """Returns the GPU of a held device and the amount held of it."""
    if devices.milli[row]:
        return number, WHOLE if demand.whole_node else demand.resources.get(GPU_MILLI, 0) or WHOLE
    geometry = devices.geometries[devices.geometry[row]]
    if demand.whole_node:
        return gpu_and_start(number)[0], geometry.whole
    profile = geometry.profile(gpu_part_of(demand.resources))
    if profile is None:
        return number, geometry.whole
    gpu, start = gpu_and_start(number)
    return gpu, profile.bits(start)
