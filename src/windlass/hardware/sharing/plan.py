"""Makes a sharing plan: options, placement, groups of equal nodes, simulation, reasons."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from windlass.hardware.errors import PlanError
from windlass.hardware.sharing.forecast import PoolForecast, ServiceForecast, forecast_pools, forecast_services
from windlass.hardware.sharing.layouts import Layout, layout_faults
from windlass.hardware.sharing.modes import Mode, Use
from windlass.hardware.sharing.options import UseOption, find_options
from windlass.hardware.sharing.placement import NodeUse, PlacedPods, PodPlacement, place
from windlass.hardware.sharing.rejection import Cause, Rejection
from windlass.hardware.sharing.request import Pool, SharingRequest, Workload


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes `first` to `first + nodes - 1` of a pool, by name, which have one configuration.

    `mode`, `replicas`: of the GPUs without MIG; None: they are idle. `layouts`: of the GPUs in MIG mode, which are the
    first ones of the node. `workloads`: pods on all nodes of the group, MIG instances not counted.
    """

    name: str
    pool: Pool
    first: int
    nodes: int
    mode: Mode | None
    replicas: int
    layouts: tuple[Layout, ...]
    workloads: tuple[tuple[str, int], ...]

    @property
    def is_idle(self) -> bool:
        """Tells whether nothing is placed on the nodes."""
        return self.mode is None and not self.layouts


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """Placed and refused pods of a workload; every refused one has a rejection."""

    workload: Workload
    pods: tuple[PlacedPods, ...]
    refused: int
    forecast: ServiceForecast | None
    rejections: tuple[Rejection, ...]

    @property
    def broken(self) -> tuple[Rejection, ...]:
        """Limits that the chosen use breaks although its pods are placed so."""
        placed = {str(each.option.use) for each in self.pods} if self.workload.use else set()
        return tuple(each for each in self.rejections if each.use in placed)


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """Groups of nodes of a pool, and the expected use of its GPUs."""

    pool: Pool
    groups: tuple[NodeGroup, ...]
    forecast: PoolForecast


@dataclass(frozen=True, slots=True)
class SharingPlan:
    """A plan for all pools and workloads of a request."""

    request: SharingRequest
    pools: tuple[PoolPlan, ...]
    workloads: tuple[WorkloadPlan, ...]


def plan_sharing(request: SharingRequest) -> SharingPlan:
    """Returns the plan of a request."""
    options, rejections = find_options(request)
    return plan_options(request, options, rejections)


def plan_options(
    request: SharingRequest, options: Sequence[Sequence[UseOption]], rejections: Sequence[Rejection]
) -> SharingPlan:
    """Returns the plan of a request whose options are given."""
    # 1. Place the pods on nodes.
    placement = place(request, options)
    # 2. Group equal nodes, and prove the MIG layouts by the places of profiles.
    groups = [_groups(request, placement, number) for number in range(len(request.pools))]
    _check_layouts(group for of_pool in groups for group in of_pool)
    # 3. Simulate the arrivals.
    services = forecast_services(request, placement)
    pools = forecast_pools(request, placement)
    # 4. Collect the reasons of each workload.
    return SharingPlan(
        request,
        tuple(PoolPlan(*each) for each in zip(request.pools, map(tuple, groups), pools, strict=True)),
        tuple(
            _workload_plan(request, placement, options[index], rejections, index, services[index])
            for index in range(len(request.workloads))
        ),
    )


def _workload_plan(
    request: SharingRequest,
    placement: PodPlacement,
    options: Sequence[UseOption],
    rejections: Sequence[Rejection],
    index: int,
    forecast: ServiceForecast | None,
) -> WorkloadPlan:
    workload = request.workloads[index]
    refused = workload.number - placement.placed(index)
    own = [each for each in rejections if each.workload == workload.name]
    if refused and options:
        own += [_no_room(request, workload, option, refused) for option in options]
    pods = tuple(each for each in placement.pods if each.option.workload == index)
    if pods and not refused:
        chosen = {each.option for each in pods}
        own += [_costlier(request, workload, option, pods) for option in options if option not in chosen]
    return WorkloadPlan(workload, pods, refused, forecast, tuple(own))


def _costlier(request: SharingRequest, workload: Workload, option: UseOption, pods: Sequence[PlacedPods]) -> Rejection:
    pool = request.pools[option.pool]
    own = _taken_text(workload, pool, option.use, workload.number)
    chosen = [_taken_text(workload, request.pools[each.option.pool], each.use, each.number) for each in pods]
    text = f"meets every limit too; without other workloads its pods take {own} so, {' and '.join(chosen)} as chosen"
    return Rejection(workload.name, pool.name, str(option.use), Cause.COST, text)


def _taken_text(workload: Workload, pool: Pool, use: Use, number: int) -> str:
    return f"{taken_gpus(workload, pool, use, number):,.4g} {pool.gpu.name}"


def taken_gpus(workload: Workload, pool: Pool, use: Use, number: int) -> float:
    """Returns the GPUs that pods take from an empty pool; shared modes take whole nodes."""
    if use.mode in (Mode.MPS, Mode.TIME_SLICING):
        return math.ceil(number / (use.replicas * pool.gpus)) * pool.gpus
    return number * workload.gpus * use.size(pool)


def _no_room(request: SharingRequest, workload: Workload, option: UseOption, refused: int) -> Rejection:
    pool = request.pools[option.pool]
    nodes = f"{pool.nodes} node{'s' * (pool.nodes != 1)}"
    text = f"{refused} of {workload.number} pods find no free GPUs on the {nodes}; add nodes to the pool"
    return Rejection(workload.name, pool.name, str(option.use), Cause.CAPACITY, text)


def _groups(request: SharingRequest, placement: PodPlacement, number: int) -> list[NodeGroup]:
    """Returns the groups of a pool. Each GPU in MIG mode has one of the pool's layouts, in order of nodes."""
    pool, use = request.pools[number], placement.pools[number]
    layouts = use.layouts(pool)
    configured: dict[tuple[NodeUse, tuple[Layout, ...]], list[NodeUse]] = {}
    for node in use.nodes:
        own = tuple(layouts[: node.mig])
        layouts = layouts[node.mig :]
        same = NodeUse(node.mode, node.replicas if node.mode else 1, node.key)
        configured.setdefault((same, own), []).append(node)
    groups: list[NodeGroup] = []
    first = 0
    names: Counter[str] = Counter()
    for (same, own), nodes in configured.items():
        name = _group_name(pool, same, own)
        names[name] += 1
        unique = name if names[name] == 1 else f"{name}-{names[name]}"
        pods = _pods_by_name(request, nodes)
        groups.append(NodeGroup(unique, pool, first, len(nodes), same.mode, same.replicas, own, pods))
        first += len(nodes)
    return groups


def _group_name(pool: Pool, same: NodeUse, layouts: tuple[Layout, ...]) -> str:
    parts = [pool.name, *(["mig"] if layouts else []), *([str(same.mode)] if same.mode else [])]
    if len(parts) == 1:
        parts.append("idle")
    return "-".join([*parts, *([str(same.replicas)] if same.replicas > 1 else [])])


def _pods_by_name(request: SharingRequest, nodes: Sequence[NodeUse]) -> tuple[tuple[str, int], ...]:
    counts: Counter[str] = Counter()
    for node in nodes:
        for workload, count in node.pods:
            counts[request.workloads[workload].name] += count
    return tuple(counts.items())


def _check_layouts(groups: Iterable[NodeGroup]) -> None:
    """Raises PlanError if a layout breaks a rule of its GPU; the packing is checked by the places of profiles alone."""
    for group in groups:
        for layout in group.layouts:
            geometry = group.pool.gpu.geometry
            faults = layout_faults(geometry, layout) if geometry else [f"{group.pool.gpu.name} has no MIG"]
            if faults:
                raise PlanError(f"the MIG layout of group {group.name} is invalid: {faults[0]}; report it as a defect")
