"""Places workloads on the nodes of pools, the most important workload first.

The rules of the device plugin hold on every node: all GPUs without MIG have one mode and one number of replicas; MPS
and MIG do not share a node. Pods with a limit of latency share time slices only with pods of their own workload, all
others with pods of their kind.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from windlass.hardware.sharing.layouts import Layout, pack_instances
from windlass.hardware.sharing.modes import Mode, Use
from windlass.hardware.sharing.options import UseOption
from windlass.hardware.sharing.request import Pool, SharingRequest, Workload

MOST_SUBSETS = 256
"""Number of smaller clusters that are tried if some pods find no place."""


@dataclass(frozen=True, slots=True)
class NodeUse:
    """Use of one node. `mode` is that of the GPUs without MIG; `pods`: index of a workload and number of its pods."""

    mode: Mode | None = None
    replicas: int = 1
    key: str = ""
    """Pods of different keys do not share the time slices of a node."""
    whole: int = 0
    slots: int = 0
    mig: int = 0
    """Number of GPUs in MIG mode."""
    pods: tuple[tuple[int, int], ...] = ()

    def free(self, gpus: int) -> int:
        """Returns the number of GPUs without pods and without MIG."""
        return gpus - self.whole - self.mig - math.ceil(self.slots / self.replicas)


class MigPods(NamedTuple):
    """Pods of one workload on MIG instances of one profile."""

    workload: int
    profile: str
    number: int


@dataclass(frozen=True, slots=True)
class PoolUse:
    """Use of one pool."""

    nodes: tuple[NodeUse, ...]
    mig: tuple[MigPods, ...] = ()

    def layouts(self, pool: Pool) -> list[Layout]:
        """Returns the MIG layouts of the pool, one for each GPU in MIG mode."""
        if not self.mig or pool.gpu.geometry is None:
            return []
        wanted: Counter[str] = Counter()
        for pods in self.mig:
            wanted[pods.profile] += pods.number
        return pack_instances(pool.gpu.geometry, wanted)


class PlacedPods(NamedTuple):
    """Pods of a workload that one option places."""

    option: UseOption
    use: Use
    number: int


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """Use of all pools, and the pods placed by each option."""

    pools: tuple[PoolUse, ...]
    pods: tuple[PlacedPods, ...] = ()

    def placed(self, workload: int) -> int:
        """Returns the number of placed pods of a workload."""
        return sum(each.number for each in self.pods if each.option.workload == workload)


class _Trial(NamedTuple):
    use: PoolUse
    number: int
    cost: float


def place(request: SharingRequest, options: Sequence[Sequence[UseOption]]) -> PodPlacement:
    """Returns the placement that serves the most important workloads best.

    If some pods with options find no place, clusters with fewer nodes are tried too, up to MOST_SUBSETS of them: the
    order of decisions can then lead to a better placement. So a further node makes no placement worse.
    """
    whole = _place_in(request, options, [pool.nodes for pool in request.pools])
    if all(whole.placed(i) == workload.number or not options[i] for i, workload in enumerate(request.workloads)):
        return whole
    return max([whole, *_smaller(request, options)], key=lambda each: _score(request, each))


def _smaller(request: SharingRequest, options: Sequence[Sequence[UseOption]]) -> Iterator[PodPlacement]:
    sizes = [range(pool.nodes, -1, -1) for pool in request.pools]
    if math.prod(map(len, sizes)) <= MOST_SUBSETS:
        for nodes in itertools.product(*sizes):
            yield _place_in(request, options, nodes)


def _score(request: SharingRequest, placement: PodPlacement) -> tuple[int, ...]:
    """Returns the placed pods of each workload, the most important first."""
    return tuple(placement.placed(index) for index in range(len(request.workloads)))


def _place_in(request: SharingRequest, options: Sequence[Sequence[UseOption]], nodes: Sequence[int]) -> PodPlacement:
    """Places all workloads on the first so many nodes of each pool."""
    pools = [PoolUse((NodeUse(),) * count) for count in nodes]
    pods: list[PlacedPods] = []
    for workload, right in zip(request.workloads, options, strict=True):
        left, able = workload.number, list(right)
        while left and able:
            trials = [_try(request, pools[option.pool], option, left) for option in able]
            best = max(range(len(able)), key=lambda each: _rank(able[each], trials[each]))
            option, trial = able.pop(best), trials[best]
            if trial.number:
                pools[option.pool] = trial.use
                pods.append(PlacedPods(option, option.use, trial.number))
                left -= trial.number
    padded = [
        replace(use, nodes=(*use.nodes, *(NodeUse(),) * (pool.nodes - len(use.nodes))))
        for use, pool in zip(pools, request.pools, strict=True)
    ]
    return PodPlacement(tuple(padded), tuple(pods))


_PREFERENCE = {Mode.MIG: 3, Mode.WHOLE: 2, Mode.MPS: 1, Mode.TIME_SLICING: 0}
"""Of equal options, the one with the stronger isolation is preferred."""


def _rank(option: UseOption, trial: _Trial) -> tuple[float, ...]:
    return (trial.number, -round(trial.cost, 6), _PREFERENCE[option.use.mode], -option.pool)


def _try(request: SharingRequest, use: PoolUse, option: UseOption, number: int) -> _Trial:
    """Places up to `number` pods by one option. The cost is in GPUs, weighed by their operations a second."""
    workload, pool = request.workloads[option.workload], request.pools[option.pool]
    if option.use.mode is Mode.WHOLE:
        trial = _try_whole(pool, use, option.workload, workload.gpus, number)
    elif option.use.mode is Mode.MIG:
        trial = _try_mig(pool, use, option, number)
    else:
        trial = _try_shared(pool, use, option, sharing_key(workload, option.use.mode), number)
    return trial._replace(cost=trial.cost * pool.gpu.bf16_flops / 1e12)


def sharing_key(workload: Workload, mode: Mode) -> str:
    """Returns the key of the pods with which a workload shares GPUs; under MPS each pod has its own share."""
    if mode is not Mode.TIME_SLICING:
        return ""
    return f"workload {workload.name}" if workload.latency_s is not None else f"kind {workload.kind}"


def _try_whole(pool: Pool, use: PoolUse, workload: int, gpus: int, number: int) -> _Trial:
    """Places pods on the nodes with the fewest free GPUs that suffice; larger gangs on several empty nodes."""
    nodes = list(use.nodes)
    placed = 0
    while placed < number:
        parts = _parts(nodes, pool, gpus)
        if not parts:
            break
        for index, (node, count) in enumerate(parts):
            was = nodes[node]
            pods = _add(was.pods, workload, 1 if index == 0 else 0)
            nodes[node] = replace(was, mode=Mode.WHOLE, whole=was.whole + count, pods=pods)
        placed += 1
    return _Trial(replace(use, nodes=tuple(nodes)), placed, placed * gpus)


def _parts(nodes: list[NodeUse], pool: Pool, gpus: int) -> list[tuple[int, int]]:
    """Returns node and GPUs of each part of a pod or gang; nothing if it fits nowhere."""
    able = [index for index, node in enumerate(nodes) if node.mode in (None, Mode.WHOLE)]
    if gpus <= pool.gpus:
        fitting = [index for index in able if nodes[index].free(pool.gpus) >= gpus]
        best = min(fitting, key=lambda index: (nodes[index].free(pool.gpus), index), default=None)
        return [] if best is None else [(best, gpus)]
    full, rest = divmod(gpus, pool.gpus)
    empty = [index for index in able if nodes[index].free(pool.gpus) == pool.gpus]
    counts = [pool.gpus] * full + [rest] * (rest > 0)
    return list(zip(empty, counts, strict=False)) if len(empty) >= len(counts) else []


def _try_mig(pool: Pool, use: PoolUse, option: UseOption, number: int) -> _Trial:
    """Packs the instances of the pool anew, with as many more as fit, and takes further GPUs if necessary."""
    assert option.use.profile is not None  # noqa: S101 - an option of MIG has a profile
    profile = option.use.profile.name
    taken = sum(node.mig for node in use.nodes)
    able = [index for index, node in enumerate(use.nodes) if node.mode is not Mode.MPS and node.free(pool.gpus)]
    limit = taken + sum(use.nodes[index].free(pool.gpus) for index in able)
    low, high, needed = 0, number, taken
    while low < high:
        middle = (low + high + 1) // 2
        count = len(_with_more(use, option.workload, profile, middle).layouts(pool))
        low, high, needed = (middle, high, count) if count <= limit else (low, middle - 1, needed)
    if not low:
        return _Trial(use, 0, 0)
    nodes = list(use.nodes)
    for index in sorted(able, key=lambda each: (nodes[each].free(pool.gpus), each)):
        more = max(0, min(needed - taken, nodes[index].free(pool.gpus)))
        nodes[index] = replace(nodes[index], mig=nodes[index].mig + more)
        taken += more
    grown = _with_more(use, option.workload, profile, low)
    return _Trial(replace(grown, nodes=tuple(nodes)), low, low * option.use.size(pool))


def _with_more(use: PoolUse, workload: int, profile: str, number: int) -> PoolUse:
    return replace(use, mig=(*use.mig, MigPods(workload, profile, number)))


def _try_shared(pool: Pool, use: PoolUse, option: UseOption, key: str, number: int) -> _Trial:
    """Fills nodes that have the mode already, then empty ones; a new node costs all of its GPUs without MIG."""
    mode, replicas = option.use.mode, option.use.replicas
    nodes = list(use.nodes)
    left, cost = number, 0
    joined = [index for index, node in enumerate(nodes) if node.mode is mode and node.key == key]
    empty = [index for index, node in enumerate(nodes) if node.mode is None and (mode is not Mode.MPS or not node.mig)]
    for index in [*(each for each in joined if nodes[each].replicas <= replicas), *empty]:
        was = nodes[index] if nodes[index].mode else replace(nodes[index], mode=mode, replicas=replicas, key=key)
        count = min(left, (pool.gpus - was.mig) * was.replicas - was.slots)
        if count > 0:
            cost += 0 if nodes[index].mode else pool.gpus - was.mig
            nodes[index] = replace(was, slots=was.slots + count, pods=_add(was.pods, option.workload, count))
            left -= count
    return _Trial(replace(use, nodes=tuple(nodes)), number - left, cost)


def _add(pods: tuple[tuple[int, int], ...], workload: int, number: int) -> tuple[tuple[int, int], ...]:
    counts = dict(pods)
    counts[workload] = counts.get(workload, 0) + number
    return tuple(counts.items())
