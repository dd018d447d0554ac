"""JSON of the details of jobs, and of nodes and queues. Times in ms, memory in bytes, CPU in milli-cores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from windlass.backends.local.state_reader import Task
from windlass.backends.port import Transition
from windlass.core.model.gang import RunningGang
from windlass.core.model.node import MILLI, Node
from windlass.core.model.queue import Queue
from windlass.core.model.reservation import Reservation
from windlass.core.model.resources import GPU, GPU_MILLI, WHOLE
from windlass.core.model.status import JobState, Phase
from windlass.jobs.secret_values import hide_secrets
from windlass.server.job_lines import Json, PendingStatus, job_line


def job_details(
    state: JobState,
    waiting: PendingStatus,
    tasks: Iterable[Task],
    transitions: Iterable[Transition],
    rank_resources: Sequence[str] = (),
) -> Json:
    """All details of a job, without values that are secrets by their names."""
    return {
        **job_line(state, waiting),
        "spec": msgspec.to_builtins(hide_secrets(state.job)),
        "status": msgspec.to_builtins(state.status),
        "verdict": msgspec.to_builtins(waiting.verdict) if waiting.verdict else None,
        "tasks": msgspec.to_builtins(list(tasks)),
        "rank_resources": list(rank_resources),
        "transitions": msgspec.to_builtins(list(transitions)),
    }


def node_line(
    node: Node, running: Iterable[RunningGang], reservations: Iterable[Reservation] = (), now: int = 0
) -> Json:
    """A node: capacity, usage by job, and its reservations that are not over, the soonest first."""
    reserved = sorted((r for r in reservations if node.name in r.nodes and r.end > now), key=lambda r: r.start)
    jobs: dict[str, dict[str, int]] = {}
    for gang in running:
        for demand in gang.demands:
            here = gang.placement.nodes.get(demand.role, ()).count(node.name)
            if here:
                held = jobs.setdefault(gang.id, {})
                for resource, amount in demand.resources.items():
                    held[resource] = held.get(resource, 0) + amount * here
    used, capacity = _sum(jobs.values()), dict(node.capacity)
    if node.sharing == MILLI:  # whole GPUs and parts of them together
        capacity[GPU_MILLI] = WHOLE * capacity.get(GPU, 0)
        used[GPU_MILLI] = used.get(GPU_MILLI, 0) + WHOLE * used.get(GPU, 0)
    return {
        "name": node.name,
        "state": _node_state(node, reserved, now),
        "cordoned": node.cordoned,
        "sharing": node.sharing,
        "capacity": capacity,
        "used": {**dict.fromkeys(capacity, 0), **used},
        "jobs": [{"id": job_id, "holds": held} for job_id, held in jobs.items()],
        "labels": dict(node.labels),
        "taints": msgspec.to_builtins(list(node.taints)),
        "place": list(node.place),
        "reservations": [
            {"name": r.name, "start": r.start, "end": r.end, "maintenance": not (r.queues or r.users)} for r in reserved
        ],
    }


def _node_state(node: Node, reserved: Sequence[Reservation], now: int) -> str:
    if node.cordoned:
        return "cordoned"
    if not node.ready:
        return "not ready"
    current = next((each for each in reserved if each.start <= now), None)
    if current is None:
        return "ready"
    return "reserved" if current.queues or current.users else "maintenance"


def queue_line(queue: Queue, held: Mapping[str, int], states: Sequence[JobState]) -> Json:
    """A queue with its quota, usage and number of jobs."""
    mine = [state.status.phase for state in states if state.job.queue == queue.name]
    return {
        "name": queue.name,
        "quota": dict(queue.nominal),
        "used": dict(held),
        "waiting": sum(phase is Phase.QUEUED for phase in mine),
        "running": sum(phase in (Phase.ADMITTED, Phase.RUNNING, Phase.RESTARTING) for phase in mine),
    }


def total_capacity(nodes: Iterable[Node]) -> dict[str, int]:
    """Total capacity of all nodes."""
    return _sum(node.capacity for node in nodes)


def _sum(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in amounts:
        for resource, amount in each.items():
            total[resource] = total.get(resource, 0) + amount
    return total
