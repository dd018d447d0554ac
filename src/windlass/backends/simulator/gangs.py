"""Turns a trace's job into a gang: how its GPUs are divided among nodes, and the core's Job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from windlass.backends.simulator.traces.job import Trace, TraceJob
from windlass.core.model.gang import Demand, PendingGang, Shape, milli_gpus_of, shape_of
from windlass.core.model.job import Job, RestartPolicy, Role
from windlass.core.model.node import Node
from windlass.core.model.resources import CPU, GPU, GPU_MILLI, MEMORY

Request: TypeAlias = tuple[tuple[Demand, ...], Shape, int]
"""The demands of a gang, their shape, and its thousandths of GPUs."""

NAME = "trace"
_GPUS = (GPU, GPU_MILLI)
_UNLIMITED_RESTARTS = RestartPolicy(infrastructure_limit=1_000_000)
"""Restart policy of trace jobs: they did end, so faults delay them, however many there are."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The largest amounts of any one node, by which jobs that request only totals are divided."""

    largest: dict[str, int]
    cached: dict[tuple[object, ...], Request] = field(default_factory=dict)
    """Cached demands by request."""


def sizes_of(nodes: Iterable[Node]) -> Sizes:
    """Returns sizes by resource. Memory and cores that no node states are not limited: jobs do not request them."""
    largest: dict[str, int] = {}
    for node in nodes:
        for name, amount in node.capacity.items():
            largest[name] = max(amount, largest.get(name, 0))
    return Sizes(largest)


def roles_of(job: TraceJob, sizes: Sizes) -> tuple[Role, ...]:
    """Returns equal replicas as in the trace, or else whole nodes and a second role for the remainder."""
    request = _request(job, sizes)
    if job.replicas is not None:
        return (Role(replicas=job.replicas, resources=request),)
    scarce = GPU if job.gpus else CPU
    total, each = request.get(scarce, 0), sizes.largest.get(scarce, 0)
    if total <= each or each == 0:
        return (Role(resources=request),)
    whole, rest = divmod(total, each)
    roles = [Role(replicas=whole, resources=_part(request, each, total))]
    if rest:
        roles.append(Role(name="rest", resources=_part(request, rest, total)))
    return tuple(roles)


def _request(job: TraceJob, sizes: Sizes) -> dict[str, int]:
    request = {GPU: job.gpus, GPU_MILLI: job.gpu_milli, CPU: job.cpu, MEMORY: job.memory}
    return {name: amount for name, amount in request.items() if amount and (name in _GPUS or name in sizes.largest)}


def _part(request: dict[str, int], part: int, total: int) -> dict[str, int]:
    return {name: -(-amount * part // total) for name, amount in request.items()}


def milli_units(amounts: Mapping[str, int], unit: str) -> int:
    """Returns the amount of a resource in thousandths of a GPU or a core."""
    return amounts.get(CPU, 0) if unit == CPU else 1000 * amounts.get(GPU, 0) + amounts.get(GPU_MILLI, 0)


def requested_units(job: TraceJob, unit: str) -> int:
    """Returns the total request of a job in thousandths of `unit`."""
    return (job.cpu if unit == CPU else 1000 * job.gpus + job.gpu_milli) * (job.replicas or 1)


def unit_of(trace: Trace) -> str:
    """Returns the resource that a trace's jobs compete for: GPUs, or cores if none requests a GPU."""
    return GPU if any(job.gpus or job.gpu_milli for job in trace.jobs) else CPU


def gang_of(job: TraceJob, number: int, sizes: Sizes) -> PendingGang:
    """Returns the job as a gang that waits for the first time; equal to the controller's result for `job_of`."""
    demands, shape, milli_gpus = _cached_request(job, sizes)
    return PendingGang(
        id=id_of(number),
        number=number,
        queue=job.queue,
        priority=job.priority,
        since=job.submit,
        demands=demands,
        shape=shape,
        walltime=job.walltime,
        user=job.user,
        milli_gpus=milli_gpus,
    )


def _cached_request(job: TraceJob, sizes: Sizes) -> Request:
    """Returns the cached demands of a request: traces repeat themselves, and equal requests share one object."""
    key = (job.queue, job.gpus, job.replicas, job.cpu, job.memory, job.gpu_milli, job.gpu_types)
    found = sizes.cached.get(key)
    if found is None:
        roles = roles_of(job, sizes)
        demands = tuple(Demand(r.name, r.replicas, r.resources, gpu_types=job.gpu_types) for r in roles)
        found = sizes.cached[key] = demands, shape_of(job.queue, demands), milli_gpus_of(demands)
    return found


def job_of(job: TraceJob, sizes: Sizes) -> Job:
    """Returns the job as a user would submit it. No grace period: it ends when it is asked to."""
    return Job(
        name=NAME,
        roles=roles_of(job, sizes),
        queue=job.queue,
        priority=job.priority,
        walltime=job.walltime,
        grace=0,
        restart=_UNLIMITED_RESTARTS,
        user=job.user,
        gpu_types=job.gpu_types,
    )


def id_of(number: int) -> str:
    """Returns the id for a number; a trace's own ids need be neither unique nor short."""
    return f"{NAME}-{number}"


def number_of(job_id: str) -> int:
    """Returns the number of an id."""
    return int(job_id.rpartition("-")[2])
