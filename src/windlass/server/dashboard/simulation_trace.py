"""The live jobs of a snapshot as a trace for the simulator: what runs first, then what waits, in queue order. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from windlass.backends.simulator.traces.job import Trace, TraceJob
from windlass.core.model.gang import PendingGang, RunningGang
from windlass.core.model.node import Node
from windlass.core.model.resources import CPU, GPU, GPU_MILLI, MEMORY
from windlass.core.model.snapshot import Snapshot
from windlass.jobs.cluster.cluster_file import Cluster

SEVERAL_ROLES = "several roles"


def trace_of(snapshot: Snapshot, order: Sequence[str], now: int, unlimited_ms: int) -> Trace:
    """Running jobs for the rest of their time limit, then waiting jobs for the whole of it, all submitted at time 0.

    A job before its begin time, or in a backoff, is submitted at the end of it.
    `order`: jobs that wait for nodes, next first. `unlimited_ms`: duration of jobs without a time limit.
    """
    places = {job_id: place for place, job_id in enumerate(order)}
    waiting = [gang for each in snapshot.classes for gang in each.gangs]
    waiting.sort(key=lambda gang: (places.get(gang.id, len(places)), gang.number))
    running = sorted(snapshot.running.values(), key=lambda run: (run.admitted_at, run.number))
    gangs: list[RunningGang | PendingGang] = [*running, *waiting]
    jobs, left_out = [], 0
    for number, gang in enumerate(gangs):
        if len(gang.demands) == 1:
            early = max(0, gang.earliest_start - now) if isinstance(gang, PendingGang) else 0
            jobs.append(replace(_job(gang, now, unlimited_ms), submit=early + number))
        else:
            left_out += 1
    jobs.sort(key=lambda job: job.submit)
    return Trace("the live jobs", "jsonl", tuple(jobs), {SEVERAL_ROLES: left_out} if left_out else {})


def _job(gang: RunningGang | PendingGang, now: int, unlimited_ms: int) -> TraceJob:
    demand = gang.demands[0]
    if isinstance(gang, RunningGang):
        duration = unlimited_ms if gang.ends_by is None else max(1, gang.ends_by - now)
        limit = None if gang.ends_by is None else duration
    else:
        duration = unlimited_ms if gang.walltime is None else gang.walltime
        limit = gang.walltime
    resources = demand.resources
    return TraceJob(
        gang.id,
        0,
        duration,
        gpus=resources.get(GPU, 0),
        cpu=resources.get(CPU, 0),
        memory=resources.get(MEMORY, 0),
        gpu_milli=resources.get(GPU_MILLI, 0),
        replicas=demand.count,
        user=gang.user,
        queue=gang.queue,
        walltime=limit,
        priority=gang.priority,
    )


def cluster_of_snapshot(snapshot: Snapshot, extra_nodes: int) -> Cluster:
    """The usable nodes and the queues of a snapshot, with copies of the largest node, or without its last nodes."""
    nodes = [node for node in snapshot.table.nodes if node.ready and not node.cordoned and not node.lost]
    kept = nodes[: len(nodes) + min(0, extra_nodes)]
    added = list(_copies(max(nodes, key=_size), extra_nodes)) if nodes else []
    topology = snapshot.table.topology
    return Cluster((*kept, *added), tuple(snapshot.queues.values()), topology, snapshot.policy)


def _size(node: Node) -> tuple[int, int]:
    return node.capacity.get(GPU, 0), node.capacity.get(CPU, 0)


def _copies(node: Node, count: int) -> Iterator[Node]:
    return (replace(node, name=f"added-{number}") for number in range(1, count + 1))
