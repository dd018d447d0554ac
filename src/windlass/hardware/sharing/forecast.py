"""Expected latency, wait and utilisation of a placement, simulated on the request's arrivals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from windlass.hardware.sharing.arrivals import mean_rate
from windlass.hardware.sharing.modes import Mode, Use
from windlass.hardware.sharing.options import percentile, slowdown, stream_of
from windlass.hardware.sharing.placement import NodeUse, PodPlacement
from windlass.hardware.sharing.request import Pool, SharingRequest, Workload
from windlass.hardware.sharing.simulation import PodPlace, Served, Stream, simulate


@dataclass(frozen=True, slots=True)
class ServiceForecast:
    """Times of one workload's arrivals in seconds; None where it has no arrivals. `slowdown`: mean over its pods."""

    slowdown: float
    wait_mean_s: float | None = None
    latency_p50_s: float | None = None
    latency_p95_s: float | None = None


@dataclass(frozen=True, slots=True)
class PoolForecast:
    """GPUs with pods, and the compute in use as a fraction of these GPUs and of all GPUs of the pool."""

    gpus_in_use: int
    utilisation: float
    utilisation_of_all: float


def forecast_services(request: SharingRequest, placement: PodPlacement) -> list[ServiceForecast | None]:
    """Returns the times of each workload; None if no pod of it is placed."""
    places = _places(request, placement)
    together: dict[str, list[int]] = defaultdict(list)
    for index, pods in places.items():
        shared = next((f"{each.gpu // _OF_POOL} {request.workloads[index].kind}" for each in pods if each.gpu), "")
        together[shared or f"alone {index}"].append(index)
    found: list[ServiceForecast | None] = [None] * len(request.workloads)
    for members in together.values():
        for index, forecast in _simulate(request, {each: places[each] for each in members}):
            found[index] = forecast
    return found


def _simulate(
    request: SharingRequest, places: dict[int, tuple[PodPlace, ...]]
) -> Iterator[tuple[int, ServiceForecast]]:
    """Simulates workloads together for as long as all of them have arrivals."""
    slower = {index: sum(pod.slowdown for pod in pods) / len(pods) for index, pods in places.items()}
    streams = {
        index: stream_of(request.workloads[index], pods, request.seed)
        for index, pods in places.items()
        if request.workloads[index].arrivals is not None
    }
    ends = [stream.series.times[-1] for stream in streams.values() if len(stream.series.times)]
    cut = [_until(stream, min(ends, default=0.0)) for stream in streams.values()]
    served = dict(zip(streams, simulate(cut), strict=True))
    for index in places:
        yield index, _summary(slower[index], served.get(index))


def _until(stream: Stream, end: float) -> Stream:
    count = int(np.searchsorted(stream.series.times, end, side="right"))
    times, works, pods = stream.series
    return stream._replace(series=stream.series._replace(times=times[:count], works=works[:count], pods=pods[:count]))


def _summary(slower: float, served: Served | None) -> ServiceForecast:
    if served is None or not len(served.waits):
        return ServiceForecast(slower)
    return ServiceForecast(slower, float(served.waits.mean()), percentile(served, 50), percentile(served, 95))


_OF_POOL = 1_000_000_000
"""Numbers of shared GPUs that one pool has."""


def _places(request: SharingRequest, placement: PodPlacement) -> dict[int, tuple[PodPlace, ...]]:
    """Returns the pods of each placed workload; they fill a shared GPU before the next, the worst contention."""
    places: dict[int, list[PodPlace]] = defaultdict(list)
    for each in placement.pods:
        if each.use.mode in (Mode.WHOLE, Mode.MIG):
            places[each.option.workload] += [PodPlace(each.option.slowdown)] * each.number
    for number, (pool, use) in enumerate(zip(request.pools, placement.pools, strict=True)):
        for index, node in enumerate(use.nodes):
            if node.mode in (Mode.MPS, Mode.TIME_SLICING):
                first = number * _OF_POOL + 1 + index * pool.gpus
                for workload, place in _shared_places(request, pool, node, first):
                    places[workload].append(place)
    return {workload: tuple(pods) for workload, pods in sorted(places.items())}


def _shared_places(request: SharingRequest, pool: Pool, node: NodeUse, first: int) -> Iterator[tuple[int, PodPlace]]:
    """Yields workload and place of each pod of a node with shared GPUs."""
    assert node.mode is not None  # noqa: S101 - the caller checks it
    slot = 0
    for index, count in node.pods:
        workload = request.workloads[index]
        slower = slowdown(workload, pool, Use(node.mode, node.replicas))
        for _ in range(count):
            contended = node.mode is Mode.TIME_SLICING and workload.kind.is_service
            yield index, PodPlace(slower, first + slot // node.replicas if contended else None)
            slot += 1


def forecast_pools(request: SharingRequest, placement: PodPlacement) -> list[PoolForecast]:
    """Returns the use of each pool's GPUs."""
    busy = [0.0] * len(request.pools)
    for each in placement.pods:
        workload = request.workloads[each.option.workload]
        pool = request.pools[each.option.pool]
        busy[each.option.pool] += each.number * pod_load(workload, pool, each.option.slowdown)
    found = []
    for pool, use, load in zip(request.pools, placement.pools, busy, strict=True):
        in_use = sum(pool.gpus - node.free(pool.gpus) for node in use.nodes)
        total = max(1, pool.gpus * pool.nodes)
        found.append(PoolForecast(in_use, min(1.0, load / in_use) if in_use else 0.0, min(1.0, load / total)))
    return found


def pod_load(workload: Workload, pool: Pool, slower: float) -> float:
    """Returns the compute that one pod uses on average, in GPUs of the pool."""
    compute = workload.demand(pool.gpu) * workload.activity * workload.gpus
    if workload.arrivals is None:
        return compute / slower
    part = mean_rate(workload.arrivals) * workload.duration_s / workload.number
    return compute * min(part, 1 / slower)
