"""Uses of GPUs that meet the requirements of one workload, and the typed reasons against all others.

Options do not depend on free capacity: a use that is an option on one GPU is one on thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from windlass.hardware.sharing.arrivals import draw_arrivals, mean_rate
from windlass.hardware.sharing.modes import MOST_REPLICAS, Mode, Use, find_use
from windlass.hardware.sharing.rejection import Cause, Rejection
from windlass.hardware.sharing.request import Isolation, Pool, SharingRequest, Workload, WorkloadKind
from windlass.hardware.sharing.simulation import SWITCHING, PodPlace, Served, Stream, simulate

BUSIEST = 0.95
"""Highest load of a pod or a shared GPU: beyond it, queues hardly end."""
ALL_MODES = frozenset(Mode)
_JUDGED = frozenset({Cause.ISOLATION, Cause.LATENCY, Cause.SLOWDOWN, Cause.OVERLOAD})
"""Causes against a chosen use that do not keep its pods from running: they are placed all the same."""


@dataclass(frozen=True, slots=True)
class UseOption:
    """A use that is right for a workload in a pool, both by their index; so are fewer replicas than it has."""

    workload: int
    pool: int
    use: Use
    slowdown: float
    """Time on the GPU relative to a whole GPU of its own, without time-slicing by others."""


class _RefusedError(Exception):
    def __init__(self, cause: Cause, text: str) -> None:
        self.cause, self.text = cause, text
        super().__init__(text)


def find_options(
    request: SharingRequest, modes: frozenset[Mode] = ALL_MODES
) -> tuple[list[list[UseOption]], list[Rejection]]:
    """Returns the options of each workload, and the rejections of all."""
    options: list[list[UseOption]] = []
    rejections: list[Rejection] = []
    for index, workload in enumerate(request.workloads):
        options.append([])
        for number, pool in enumerate(request.pools):
            if workload.use:
                uses = _chosen_uses(workload, pool, request.seed, rejections)
            else:
                uses = _first_right_uses(workload, pool, modes, request.seed, rejections)
            for use in uses:
                options[-1].append(UseOption(index, number, use, slowdown(workload, pool, use)))
    return options, rejections


def _chosen_uses(workload: Workload, pool: Pool, seed: int, rejections: list[Rejection]) -> Iterator[Use]:
    """Yields the use that the request names if its pods can run so, and adds a rejection for each limit it breaks."""
    use = find_use(workload.use, pool)
    if use is None:
        text = f"{pool.gpu.name} has no profile {workload.use.partition(':')[2]}"
        rejections.append(Rejection(workload.name, pool.name, workload.use, Cause.NO_MIG, text))
        return
    causes = set()
    checks = partial(_check_mode, workload, pool, use.mode), partial(_check_use, workload, pool, use, seed)
    for check in checks:
        try:
            check()
        except _RefusedError as refused:
            rejections.append(Rejection(workload.name, pool.name, str(use), refused.cause, refused.text))
            causes.add(refused.cause)
    if causes <= _JUDGED:
        yield use


def _first_right_uses(
    workload: Workload, pool: Pool, modes: frozenset[Mode], seed: int, rejections: list[Rejection]
) -> Iterator[Use]:
    """Yields the smallest right use of each mode, and adds the rejections of smaller ones."""
    for mode in Mode:
        if mode not in modes:
            continue
        try:
            _check_mode(workload, pool, mode)
        except _RefusedError as refused:
            rejections.append(Rejection(workload.name, pool.name, mode, refused.cause, refused.text))
            continue
        for use in _candidates(workload, pool, mode, seed):
            try:
                _check_use(workload, pool, use, seed)
            except _RefusedError as refused:
                rejections.append(Rejection(workload.name, pool.name, str(use), refused.cause, refused.text))
            else:
                yield use
                break


def _check_mode(workload: Workload, pool: Pool, mode: Mode) -> None:
    """Raises _RefusedError if no size of a mode can be right."""
    if mode is Mode.WHOLE:
        if workload.gpus > pool.gpus * pool.nodes:
            raise _RefusedError(Cause.CAPACITY, f"needs {workload.gpus} GPUs, the pool has {pool.gpus * pool.nodes}")
        return
    if workload.gpus > 1:
        why = {
            Mode.MIG: "NCCL does not connect MIG instances: they have no peer-to-peer access",
            Mode.MPS: "the device plugin refuses a pod with more than one replica",
            Mode.TIME_SLICING: "the device plugin refuses a pod with more than one replica",
        }[mode]
        raise _RefusedError(Cause.MULTI_GPU, f"needs {workload.gpus} GPUs; {why}")
    if mode is Mode.MIG and pool.gpu.geometry is None:
        raise _RefusedError(Cause.NO_MIG, f"the tables have no MIG profiles of {pool.gpu.name}")
    levels = list(Isolation)
    if levels.index(mode.isolation) < levels.index(workload.isolation):
        given = f"only {mode.isolation} isolation" if mode.isolation is not Isolation.NONE else "no isolation"
        raise _RefusedError(Cause.ISOLATION, f"{workload.isolation} isolation is required, {mode} gives {given}")


def _candidates(workload: Workload, pool: Pool, mode: Mode, seed: int) -> list[Use]:
    """Returns the uses to try, the smallest first; of shared ones, the largest right number of replicas."""
    if mode is Mode.WHOLE:
        return [Use(mode)]
    if mode is Mode.MIG:
        assert pool.gpu.geometry is not None  # noqa: S101 - checked before
        uses = [Use(mode, profile=profile) for profile in pool.gpu.geometry.profiles[1:]]
        return sorted(uses, key=lambda use: use.size(pool))
    most = min(MOST_REPLICAS, max(2, workload.number), max(2, pool.usable // workload.memory))
    return [Use(mode, _largest(most, lambda count: _is_right(workload, pool, Use(mode, count), seed)))]


def _largest(most: int, is_right: Callable[[int], bool]) -> int:
    """Returns the largest right number from 2 to `most`, or 2, by bisection."""
    low, high = 2, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if is_right(middle) else (low, middle - 1)
    return low


def _is_right(workload: Workload, pool: Pool, use: Use, seed: int) -> bool:
    try:
        _check_use(workload, pool, use, seed)
    except _RefusedError:
        return False
    return True


def _check_use(workload: Workload, pool: Pool, use: Use, seed: int) -> None:
    """Raises _RefusedError if a pod does not fit or is too slow."""
    if workload.memory > use.memory(pool):
        text = f"needs {workload.memory / 1e9:.3g} GB, has {use.memory(pool) / 1e9:.3g} GB"
        raise _RefusedError(Cause.MEMORY, text)
    slower = slowdown(workload, pool, use)
    if not workload.kind.is_service and slower > workload.slowdown:
        text = f"a job takes {slower:.3g} × as long as on a whole GPU, at most {workload.slowdown:.3g} × is allowed"
        raise _RefusedError(Cause.SLOWDOWN, text)
    _check_load(workload, use, slower)
    if workload.kind.is_service:
        _check_times(workload, use, slower, seed)


def slowdown(workload: Workload, pool: Pool, use: Use) -> float:
    """Returns the time of one arrival relative to a whole GPU, without others that wait for the same GPU."""
    slower = max(1.0, workload.demand(pool.gpu) / use.share(pool))
    if use.mode is Mode.TIME_SLICING and use.replicas > 1 and not workload.kind.is_service:
        return slower * max(1.0, use.replicas * workload.activity / (1 - SWITCHING))
    return slower


def _check_load(workload: Workload, use: Use, slower: float) -> None:
    if workload.arrivals is None:
        return
    work = mean_rate(workload.arrivals) * workload.duration_s * slower
    if work > BUSIEST * workload.number:
        least = int(work / BUSIEST) + 1
        text = f"arrivals keep {work:.3g} pods busy and there are {workload.number}; number: {least} suffices"
        raise _RefusedError(Cause.OVERLOAD, text)
    together = min(use.replicas, workload.number)
    load = work / workload.number * together / (1 - SWITCHING)
    if use.mode is Mode.TIME_SLICING and workload.kind.is_service and load > BUSIEST:
        raise _RefusedError(Cause.OVERLOAD, f"{together} pods keep one GPU {load:.0%} busy, at most {BUSIEST:.0%}")


def _check_times(workload: Workload, use: Use, slower: float, seed: int) -> None:
    """Raises _RefusedError if the simulated latency is above its limit, or without one, far above a whole GPU's."""
    replicas = use.replicas if use.mode is Mode.TIME_SLICING else 0
    mean, latency = _times(workload, replicas, slower, seed)
    if workload.latency_s is None:
        ratio = mean / _times(workload, 0, 1.0, seed)[0]
        if ratio > workload.slowdown:
            text = f"an arrival takes {ratio:.3g} × as long as on a whole GPU"
            raise _RefusedError(Cause.SLOWDOWN, f"{text}, at most {workload.slowdown:.3g} × is allowed")
    elif latency > workload.latency_s:
        text = f"latency p95 {seconds(latency)}, at most {seconds(workload.latency_s)} is allowed"
        raise _RefusedError(Cause.LATENCY, text + _peak(workload, slower))


def _peak(workload: Workload, slower: float) -> str:
    """Returns the end of a text where peaks are more than all pods serve together."""
    assert workload.arrivals is not None  # noqa: S101 - a service has arrivals
    busy = workload.arrivals.rate * workload.arrivals.burst * workload.duration_s * slower
    return f"; peaks keep {busy:.3g} pods busy and there are {workload.number}" if busy > workload.number else ""


@lru_cache(maxsize=4096)
def _times(workload: Workload, replicas: int, slower: float, seed: int) -> tuple[float, float]:
    """Returns mean and 95th percentile of the latency, with all pods of the workload and no others.

    `replicas`: pods that share a GPU by time slices; 0: none do.
    """
    pods = tuple(PodPlace(slower, each // replicas if replicas else None) for each in range(workload.number))
    (served,) = simulate([stream_of(workload, pods, seed)])
    return float(served.latencies.mean()), percentile(served, 95)


def stream_of(workload: Workload, pods: tuple[PodPlace, ...], seed: int) -> Stream:
    """Returns the arrivals of a workload of which these pods are placed."""
    return Stream(draw_arrivals(workload, len(pods), seed), pods, workload.kind is WorkloadKind.NOTEBOOK)


def percentile(served: Served, percent: int) -> float:
    """Returns a percentile of the latencies, in seconds."""
    return float(np.percentile(served.latencies, percent)) if len(served.latencies) else 0.0


def seconds(value: float) -> str:
    """Returns a time for people: "38 ms", "4.2 s", "1.5 h"."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if value >= 2 * size or (unit == "s" and value >= 1):
            return f"{value / size:.3g} {unit}"
    return f"{value * 1000:.3g} ms"
