"""Sharing plans of `windlass gpu plan` against three naive policies, on the same clusters, workloads and arrivals.

The policies: whole GPUs for each pod; time-slicing wherever the memory suffices, whatever the latency and isolation;
MIG by the smallest profile that holds the memory, on the first GPU with room, whatever the latency. Everything is
simulated by the model of the planner itself, whose assumptions `windlass gpu plan` prints: no GPU is used.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from windlass.hardware.facts.gpus import find_gpu
from windlass.hardware.sharing.modes import MOST_REPLICAS, Mode, Use
from windlass.hardware.sharing.options import UseOption, slowdown
from windlass.hardware.sharing.plan import SharingPlan, WorkloadPlan, plan_options, plan_sharing
from windlass.hardware.sharing.request import Arrivals, Isolation, Pool, SharingRequest, Workload, WorkloadKind

GB = 10**9
A100 = find_gpu("A100-80GB")


def inference(name: str, number: int, memory: int, rate: float, duration: float, **more: object) -> Workload:
    settings = {"slowdown": 2.0, "arrivals": Arrivals(rate, 3.0, 0.2, 300.0), **more}
    return Workload(name, WorkloadKind.INFERENCE, number, memory * GB, duration, **settings)


def notebooks(number: int, memory: int) -> Workload:
    arrivals = Arrivals(number / 480, 2.0, 0.4, 86_400.0)
    return Workload("notebooks", WorkloadKind.NOTEBOOK, number, memory * GB, 15.0, slowdown=2.0, arrivals=arrivals)


def batch(number: int, memory: int, rate: float) -> Workload:
    return Workload(
        "experiments",
        WorkloadKind.BATCH,
        number,
        memory * GB,
        3000.0,
        compute=0.3,
        slowdown=1.2,
        arrivals=Arrivals(rate),
    )


def training(number: int, gpus: int) -> Workload:
    return Workload("training", WorkloadKind.TRAINING, number, 70 * GB, 5e5, gpus=gpus)


CHAT = inference("chat", 16, 16, 60, 0.04, isolation=Isolation.FAULT, compute=0.3, latency_s=0.25)
EMBED = inference("embed", 12, 5, 150, 0.012, isolation=Isolation.MEMORY, compute=0.15, latency_s=0.1)
CASES = {
    "inference alone": (2, (CHAT, EMBED)),
    "notebooks alone": (3, (notebooks(120, 8),)),
    "mixed": (6, (training(1, 16), CHAT, EMBED, notebooks(60, 8), batch(16, 16, 15 / 3600))),
    "more than fits": (4, (training(1, 16), CHAT, EMBED, notebooks(100, 8), batch(30, 16, 28 / 3600))),
}


def naive(request: SharingRequest, choose: Callable[[Workload, Pool], Use]) -> SharingPlan:
    """Returns the plan in which each workload has one use, right or not."""
    options = []
    for index, workload in enumerate(request.workloads):
        pool = request.pools[0]
        use = Use(Mode.WHOLE) if workload.gpus > 1 else choose(workload, pool)
        options.append([UseOption(index, 0, use, slowdown(workload, pool, use))])
    return plan_options(request, options, [])


def whole(_workload: Workload, _pool: Pool) -> Use:
    return Use(Mode.WHOLE)


def time_slices(workload: Workload, pool: Pool) -> Use:
    return Use(Mode.TIME_SLICING, max(2, min(MOST_REPLICAS, pool.usable // workload.memory)))


def first_fit_mig(workload: Workload, pool: Pool) -> Use:
    assert pool.gpu.geometry is not None
    uses = [Use(Mode.MIG, profile=profile) for profile in reversed(pool.gpu.geometry.profiles)]
    return next(use for use in uses if use.memory(pool) >= workload.memory)


POLICIES = {
    "whole GPUs": lambda request: naive(request, whole),
    "time-slicing": lambda request: naive(request, time_slices),
    "first-fit MIG": lambda request: naive(request, first_fit_mig),
    "windlass": plan_sharing,
}


@dataclass(frozen=True)
class Outcome:
    """`placed`: fraction of pods; `kept`: of pods placed within memory, isolation and time of their workload."""

    placed: float
    kept: float
    gpus: int
    utilisation: float
    worst: float
    """Largest 95th percentile of a latency relative to its limit; time relative to a whole GPU, for others."""


def outcome(plan: SharingPlan) -> Outcome:
    pods = sum(each.workload.number for each in plan.workloads)
    placed = sum(each.workload.number - each.refused for each in plan.workloads)
    kept = sum(each.workload.number - each.refused for each in plan.workloads if is_kept(each))
    pool = plan.pools[0]
    return Outcome(placed / pods, kept / pods, pool.forecast.gpus_in_use, pool.forecast.utilisation, worst_time(plan))


def worst_time(plan: SharingPlan) -> float:
    """Returns how far the slowest placed workload is from its limit; 1: it meets it exactly."""
    return max((excess(each) for each in plan.workloads if each.forecast), default=0.0)


def excess(each: WorkloadPlan) -> float:
    workload, forecast = each.workload, each.forecast
    if workload.latency_s is not None:
        return forecast.latency_p95_s / workload.latency_s
    return forecast.slowdown / workload.slowdown


def is_kept(each: WorkloadPlan) -> bool:
    order = list(Isolation)
    isolated = all(order.index(p.use.mode.isolation) >= order.index(each.workload.isolation) for p in each.pods)
    return bool(each.pods) and isolated and excess(each) <= 1


def main() -> None:
    print(f"{'case':<16} {'policy':<14} {'placed':>7} {'kept':>6} {'GPUs':>5} {'compute':>8} {'time/limit':>10}")
    found: dict[str, dict[str, Outcome]] = {}
    begin = time.perf_counter()
    for case, (nodes, workloads) in CASES.items():
        request = SharingRequest((Pool("a100", A100, 8, nodes),), workloads)
        found[case] = {name: outcome(policy(request)) for name, policy in POLICIES.items()}
        for name, each in found[case].items():
            print(
                f"{case:<16} {name:<14} {each.placed:>7.0%} {each.kept:>6.0%} {each.gpus:>5} "
                f"{each.utilisation:>8.0%} {each.worst:>10.2f}"
            )
    seconds = (time.perf_counter() - begin) / len(CASES)
    report(found, seconds)


def report(found: dict[str, dict[str, Outcome]], seconds: float) -> None:
    mixed = found["mixed"]
    ours = mixed["windlass"]
    claims = [
        ("sharing plan, mixed workloads: slowest one relative to its limit", ours.worst, "×", 1.0, "lower"),
        ("sharing plan and three naive ones, for one case", seconds, "s", 5.0, "lower"),
    ]
    for claim, measured, unit, target, better in claims:
        print(json.dumps({"claim": claim, "measured": measured, "unit": unit, "target": target, "better": better}))
    for name in ("whole GPUs", "time-slicing", "first-fit MIG"):
        peer = mixed[name]
        compare("pods placed within their requirements", 100 * ours.kept, name, 100 * peer.kept)
        compare("compute used of the GPUs in use", 100 * ours.utilisation, name, 100 * peer.utilisation)


def compare(what: str, measured: float, peer: str, peer_measured: float) -> None:
    """Prints a claim whose target is the naive policy's figure."""
    line = {"claim": f"sharing plan, mixed workloads: {what}", "measured": measured, "unit": "%", "better": "higher"}
    print(json.dumps({**line, "target": peer_measured, "peer": peer, "peer_measured": peer_measured}))


if __name__ == "__main__":
    main()
