"""Check of E1: one training over all nodes, an elastic one that lost a node, and the jobs of a scaling report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from windlass.labs.evidence.findings import Finding
from windlass.labs.evidence.job_records import LabJob
from windlass.labs.evidence.lab import Lab

TOLERANCE = 1e-9
STATIC = "windlass run -N 2 --local-nodes 2 --exclusive --procs 2 --cpus 0 -- torchrun train.py"
ELASTIC = "windlass run --cpus 0 -- sh elastic.sh"
SCALING = (
    "windlass scaling -N 1,2 --local-nodes 2 --exclusive --procs 1 --cpus 0 -o json -- python scale.py > scaling.json"
)


@dataclass(frozen=True, slots=True)
class GangStart:
    """One start of all ranks: processes, agents, and the step from which they went on."""

    world: int
    nodes: int
    step: int


@dataclass(frozen=True, slots=True)
class ElasticRun:
    """A report: the loss of each step, and every start of the ranks."""

    losses: tuple[float, ...]
    starts: tuple[GangStart, ...]


@dataclass(frozen=True, slots=True)
class ScalingRow:
    """One size in the report of `windlass scaling`."""

    job: str
    nodes: int
    ranks: int
    samples_per_second: float
    speedup: float
    efficiency: float


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at the training on two nodes, the elastic one, and the report of one against two nodes."""
    jobs = list(reversed(lab.jobs()))
    reports = [(job, run) for job in jobs if job.succeeded and (run := lab.report(job.id, ElasticRun)) and run.starts]
    # 1. static
    static = next((run for job, run in reports if _spans_nodes(job, run)), None)
    yield Finding(static is not None, "one training spans two nodes or more", _static_fix(reports))
    # 2. elastic
    elastic = next((run for _, run in reports if _lost_node(run)), None)
    yield Finding(
        elastic is not None,
        "a training goes on from its checkpoint with fewer nodes",
        "no succeeded job has gone on after the loss of an agent: give elastic.sh an elastic range of nodes, a "
        f"rendezvous that does not number nodes by hand, and restarts; run: {ELASTIC}",
    )
    if static is not None and elastic is not None:
        yield Finding(
            _begins_alike(static.losses, elastic.losses),
            "both have equal losses, whatever the number of ranks",
            f"the losses differ: restore train.py by windlass lab start e1 --fresh, and run: {STATIC}",
        )
    # 3. one against two nodes
    yield from _scaled(lab, jobs)


def _spans_nodes(job: LabJob, run: ElasticRun) -> bool:
    """Whether the ranks of all replicas of a job were one gang, on several nodes."""
    start = run.starts[-1]
    return job.replicas == start.nodes == len(job.nodes) > 1 and start.world >= start.nodes


def _static_fix(reports: Sequence[tuple[LabJob, ElasticRun]]) -> str:
    for job, run in reports:
        if job.replicas > 1 and job.replicas == run.starts[-1].nodes:
            return f"all replicas of {job.id} were on {job.nodes[0]}: give each its node by --exclusive; run: {STATIC}"
        if job.replicas > 1:
            return (
                f"{job.id} has {job.replicas} replicas, but a rank saw {run.starts[-1].nodes} node: each node trained "
                f"alone. Leave --standalone out; run: {STATIC}"
            )
    return f"run: {STATIC}"


def _lost_node(run: ElasticRun) -> bool:
    """Whether a start has fewer nodes than the one before, and goes on behind its first step."""
    pairs = zip(run.starts, run.starts[1:], strict=False)
    return any(after.nodes < before.nodes and after.step > before.step for before, after in pairs)


def _begins_alike(losses: Sequence[float], others: Sequence[float]) -> bool:
    """Whether all steps that both runs have are equal."""
    return all(math.isclose(loss, other, rel_tol=TOLERANCE) for loss, other in zip(losses, others, strict=False))


def _scaled(lab: Lab, jobs: Sequence[LabJob]) -> Iterator[Finding]:
    """Yields whether the report has one node and several, measured by jobs of this lab."""
    name = next(iter(lab.files("scaling*.json")), None)
    rows = lab.record(name, tuple[ScalingRow, ...]) if name else None
    by_nodes = {row.nodes: row for row in rows or ()}
    larger = max((nodes for nodes in by_nodes if nodes > 1), default=0)
    compares = 1 in by_nodes and larger > 0
    yield Finding(compares, "a scaling report compares one node with more", f"run: {SCALING}")
    if not compares:
        return
    pair = (by_nodes[1], by_nodes[larger])
    replicas = {job.id: job.replicas for job in jobs}
    yield Finding(
        all(replicas.get(row.job) == row.nodes for row in pair),
        "the report names jobs of this lab",
        f"{name} names jobs that this lab has no record of, or of another size; run: {SCALING}",
    )
    speedup = pair[1].samples_per_second / max(pair[0].samples_per_second, 1e-9)
    efficiency = speedup * pair[0].ranks / max(pair[1].ranks, 1)
    yield Finding(
        math.isclose(efficiency, pair[1].efficiency, rel_tol=0.01),
        f"{larger} nodes: speed-up {speedup:.2f}, efficiency {efficiency:.0%}",
        f"{name} was changed: its efficiency is not the speed-up divided by the ratio of ranks; run: {SCALING}",
    )
