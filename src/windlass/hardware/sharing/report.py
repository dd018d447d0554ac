"""A sharing plan as plain data, as lines of text, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from windlass.hardware.sharing.arrivals import ARRIVALS
from windlass.hardware.sharing.layouts import count_profiles
from windlass.hardware.sharing.modes import MOST_REPLICAS
from windlass.hardware.sharing.options import BUSIEST, seconds
from windlass.hardware.sharing.plan import NodeGroup, PoolPlan, SharingPlan, WorkloadPlan
from windlass.hardware.sharing.rejection import Cause
from windlass.hardware.sharing.request import USABLE
from windlass.hardware.sharing.simulation import SWITCHING

ASSUMPTIONS = (
    f"processes can allocate {USABLE:.0%} of the nominal memory of a GPU or MIG instance",
    "a pod on a MIG instance or a share of MPS has a constant part of the GPU's compute; MPS shares are equal",
    f"pods of time slices share the GPU's time equally while they are busy, less {SWITCHING:.0%} for switches",
    "memory bandwidth that pods take from each other under MPS and time-slicing is not modelled",
    "arrivals are Poisson with peaks; durations are gamma-distributed with a coefficient of variation of 0.5",
    f"{ARRIVALS:,} arrivals of each workload are simulated, or its trace; a load above {BUSIEST:.0%} is refused",
    f"at most {MOST_REPLICAS} pods share a GPU: the limit of MPS clients",
    "a GPU with fewer operations or less bandwidth than the measured one is slower by the larger ratio",
    "the cost of a use is its GPUs times their dense bf16 operations a second",
    "no figure was compared with a run on a GPU",
)


_CLOSE = 0.9
"""Fraction of the limit of a latency from which it is called close."""


def plain_sharing_plan(plan: SharingPlan) -> dict[str, Any]:
    """Returns the plan as JSON and YAML have it. Times are in seconds, memory in bytes."""
    return {
        "pools": [_plain_pool(each) for each in plan.pools],
        "workloads": [_plain_workload(plan, each) for each in plan.workloads],
        "seed": plan.request.seed,
        "assumptions": list(ASSUMPTIONS),
    }


def _plain_pool(plan: PoolPlan) -> dict[str, Any]:
    return {
        "name": plan.pool.name,
        "gpu": plan.pool.gpu.name,
        "gpus_per_node": plan.pool.gpus,
        "nodes": plan.pool.nodes,
        "gpus_in_use": plan.forecast.gpus_in_use,
        "utilisation": round(plan.forecast.utilisation, 4),
        "utilisation_of_all": round(plan.forecast.utilisation_of_all, 4),
        "groups": [_plain_group(each) for each in plan.groups],
    }


def _plain_group(group: NodeGroup) -> dict[str, Any]:
    return {
        "name": group.name,
        "nodes": group.nodes,
        "mode": group.mode and str(group.mode),
        "replicas": group.replicas,
        "mig": [[{"profile": name, "start": start} for name, start in layout] for layout in group.layouts],
        "pods": dict(group.workloads),
    }


def _plain_workload(plan: SharingPlan, each: WorkloadPlan) -> dict[str, Any]:
    forecast = each.forecast
    return {
        "name": each.workload.name,
        "kind": str(each.workload.kind),
        "number": each.workload.number,
        "placed": [
            {"pool": plan.request.pools[pods.option.pool].name, "use": str(pods.use), "pods": pods.number}
            for pods in each.pods
        ],
        "refused": each.refused,
        "expected": None
        if forecast is None
        else {
            "slowdown": round(forecast.slowdown, 4),
            "wait_mean": _rounded(forecast.wait_mean_s),
            "latency_p50": _rounded(forecast.latency_p50_s),
            "latency_p95": _rounded(forecast.latency_p95_s),
        },
        "broken": [str(no.cause) for no in each.broken],
        "rejected": [
            {"pool": no.pool, "use": no.use, "cause": str(no.cause), "reason": no.text} for no in each.rejections
        ],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


_GROUPS = ("group", "nodes", "GPUs without MIG", "MIG instances of a node", "pods without MIG")
_WORKLOADS = ("workload", "kind", "placed", "use", "slowdown", "wait", "p50", "p95", "limit")


def text_sharing_plan(plan: SharingPlan) -> list[str]:
    """Returns the lines of the plan for a terminal."""
    lines = [_pool_line(each) for each in plan.pools]
    lines += ["", *_aligned([_GROUPS, *_group_rows(plan)]), "", *_aligned([_WORKLOADS, *_workload_rows(plan)])]
    for each in plan.workloads:
        lines += ["", *_reasons(plan, each)]
    return [*lines, "", "assumptions:", *(f"  {each}" for each in ASSUMPTIONS)]


def markdown_sharing_plan(plan: SharingPlan) -> list[str]:
    """Returns the lines of the plan as a Markdown page."""
    lines = ["# GPU sharing plan", "", *(f"- {_pool_line(each)}" for each in plan.pools)]
    lines += ["", *_table([_GROUPS, *_group_rows(plan)]), "", *_table([_WORKLOADS, *_workload_rows(plan)])]
    lines += ["", "## Reasons"]
    for each in plan.workloads:
        first, *others = _reasons(plan, each)
        lines += ["", first, "", *(f"- {other.strip()}" for other in others)]
    return [*lines, "", "## Assumptions", "", *(f"- {each}" for each in ASSUMPTIONS)]


def _pool_line(plan: PoolPlan) -> str:
    pool, forecast = plan.pool, plan.forecast
    nodes = f"{pool.nodes} node{'s' * (pool.nodes != 1)}"
    return (
        f"pool {pool.name}: {nodes} × {pool.gpus} {pool.gpu.name}; {forecast.gpus_in_use} of "
        f"{pool.nodes * pool.gpus} GPUs in use, with {forecast.utilisation:.0%} of their compute"
    )


def _group_rows(plan: SharingPlan) -> Iterator[tuple[str, ...]]:
    for pool in plan.pools:
        for group in pool.groups:
            without = pool.pool.gpus - len(group.layouts)
            mode = str(group.mode or "idle") + (f" × {group.replicas}" if group.replicas > 1 else "")
            instances = ", ".join(f"{count} × {name}" for name, count in count_profiles(group.layouts).items())
            pods = ", ".join(f"{count} {name}" for name, count in group.workloads)
            yield (
                group.name,
                str(group.nodes),
                f"{without} {mode}" if without else "none",
                instances or "none",
                pods or "none",
            )


def _workload_rows(plan: SharingPlan) -> Iterator[tuple[str, ...]]:
    for each in plan.workloads:
        workload, found = each.workload, each.forecast
        times = [found.wait_mean_s, found.latency_p50_s, found.latency_p95_s] if found else [None] * 3
        yield (
            workload.name,
            str(workload.kind),
            f"{workload.number - each.refused} of {workload.number}",
            ", ".join(str(pods.use) for pods in each.pods) or "refused",
            f"{found.slowdown:.2f} ×" if found else "-",
            *("-" if time is None else seconds(time) for time in times),
            "-" if workload.latency_s is None else seconds(workload.latency_s),
        )


def _reasons(plan: SharingPlan, each: WorkloadPlan) -> Iterator[str]:
    placed = [_describe_pods(plan, each, index) for index in range(len(each.pods))]
    yield f"{each.workload.name}: {'; '.join(placed) or 'refused'}"
    if _is_close_to_limit(each):
        yield f"  p95 is within {1 - _CLOSE:.0%} of its limit: plan with other seeds too, or lower the limit"
    broken = {no.cause for no in each.broken}
    alike: dict[tuple[str, Cause, str], list[str]] = {}
    for no in each.rejections:
        alike.setdefault((no.pool, no.cause, no.text), []).append(no.use)
    for (pool, cause, text), uses in alike.items():
        word = "chosen, and breaks a limit:" if cause in broken else "not"
        yield f"  {word} {', '.join(uses)} in {pool} ({cause}): {text}"


def _is_close_to_limit(each: WorkloadPlan) -> bool:
    p95 = each.forecast.latency_p95_s if each.forecast else None
    limit = each.workload.latency_s
    return p95 is not None and limit is not None and _CLOSE * limit < p95 <= limit


def _describe_pods(plan: SharingPlan, each: WorkloadPlan, index: int) -> str:
    """Returns use, memory and isolation of some placed pods."""
    pods = each.pods[index]
    pool = plan.request.pools[pods.option.pool]
    memory = f"{each.workload.memory / 1e9:.3g} of {pods.use.memory(pool) / 1e9:.3g} GB"
    size = f"{pods.use.size(pool) * each.workload.gpus:.3g} GPU each"
    isolation = str(pods.use.mode.isolation).replace("none", "no")
    return f"{pods.number} on {pods.use} in {pool.name} ({memory}, {isolation} isolation, {size})"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    rows = [[cell.upper() for cell in rows[0]], *rows[1:]]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *others = (f"| {' | '.join(row)} |" for row in rows)
    return [head, f"|{'---|' * len(rows[0])}", *others]
