"""JSON of jobs, nodes and queues. Times in ms, memory in bytes, CPU in milli-cores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from windlass.backends.local.state_reader import Task
from windlass.backends.port import Transition
from windlass.core.lifecycle.failure import needs_diagnosis
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.elastic_size import job_at_maximum, present_job
from windlass.core.model.gang import RunningGang
from windlass.core.model.job import Job, total_request
from windlass.core.model.node import MILLI, Node
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import Verdict
from windlass.core.model.reservation import Reservation
from windlass.core.model.resources import GPU, GPU_MILLI, WHOLE
from windlass.core.model.status import JobState, Phase
from windlass.jobs.secret_values import hide_secrets

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PendingStatus:
    """Verdict and queue position of a pending job in the last plan. `position` counts from 1; 0: not in the queue.

    `obstacle`: the diagnosis of what keeps a job from running that waits for longer than a short time.
    """

    verdict: Verdict | None = None
    position: int = 0
    obstacle: DiagnosedCause | None = None


NOT_PENDING = PendingStatus()


def job_line(state: JobState, waiting: PendingStatus = NOT_PENDING) -> Json:
    """A job as one line of a listing."""
    status = state.status
    job = present_job(state)
    verdict = waiting.verdict if status.phase is Phase.QUEUED else None
    return {
        "id": state.id,
        "number": state.number,
        "name": job.name,
        "array": job.array.array_id if job.array else "",
        "index": job.array.index if job.array else None,
        "user": job.user,
        "queue": job.queue,
        "priority": job.priority,
        "phase": status.phase.value,
        "reason": verdict.reason.value if verdict else status.reason,
        "message": verdict.message if verdict else status.message,
        "position": waiting.position,
        "eta": verdict.eta if verdict else None,
        "certainty": verdict.certainty.value if verdict else "",
        "replicas": job.members,
        "elastic": _bounds(state.job),
        "ranks": job.world_size,
        "request": total_request(job),
        "gpu_milli": max(role.resources.get(GPU_MILLI, 0) for role in job.roles),
        "gpu_types": list(job.gpu_types),
        "nodes": list(status.placement.distinct()) if status.placement else [],
        "attempts": status.attempts,
        "created_at": status.created_at,
        "queued_at": status.queued_at,
        "admitted_at": status.admitted_at,
        "started_at": status.started_at,
        "running_since": status.running_since,
        "finished_at": status.finished_at,
        "stopped_at": status.stopped_at or None,
        "run_time": status.run_time,
        "walltime": job.walltime,
        "exit_code": exit_code(state),
        "diagnosis": msgspec.to_builtins(status.diagnosis) if status.diagnosis else None,
        "awaits_diagnosis": needs_diagnosis(status),
        "wait_diagnosis": msgspec.to_builtins(waiting.obstacle) if waiting.obstacle else None,
    }


def _bounds(job: Job) -> list[int] | None:
    """Minimum and maximum number of replicas of an elastic job, else None."""
    if not any(role.elastic for role in job.roles):
        return None
    least = sum(role.replicas if role.min_replicas is None else role.min_replicas for role in job.roles)
    return [least, job_at_maximum(job).members]


def exit_code(state: JobState) -> int | None:
    """0 for a success; for a failure the code of the rank that caused it, 128 + n for signal n; else None."""
    status, failure = state.status, state.status.last_failure
    if status.phase is Phase.SUCCEEDED:
        return 0
    if status.phase is not Phase.FAILED or failure is None or failure.reason != status.reason:
        return None
    return failure.exit_code if failure.signal is None else 128 + failure.signal


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
