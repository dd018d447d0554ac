"""Check at submission whether a job could ever run here; a job that could not is rejected with what would fit."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches

import numpy as np

from windlass.core.model.gang import MAX_MEMBERS, Demand, demands_of, total_of
from windlass.core.model.job import DEFAULT_QUEUE, Job
from windlass.core.model.reasons import Reason, Verdict
from windlass.core.model.resources import is_exclusive
from windlass.core.model.snapshot import NodeTable, Snapshot
from windlass.core.model.steps import jobs_of_steps
from windlass.core.nodes.feasibility import eligibility, with_all_nodes_up
from windlass.core.nodes.free_capacity import FreeCapacities
from windlass.core.nodes.gpu_requests import request_fault, unavailability
from windlass.core.placement.gang_placement import fits
from windlass.core.placement.shortage import asked_amounts, find_shortage, format_amounts, impossible_verdict
from windlass.core.placement.topology_shortage import check_topology_request
from windlass.core.queues import quota
from windlass.core.queues.limits import find_limit, priority_fault, user_maximum
from windlass.core.queues.queue_tree import Tree, tree_of
from windlass.core.queues.quota import queue_named
from windlass.core.queues.usage import QueueUsage


def admission_refusal(snapshot: Snapshot, job: Job) -> Verdict | None:
    """Returns why this job, in one of its steps, can never run on this cluster, even if empty; None if it can.

    Nodes that are down or cordoned count as if they were up. A cluster without nodes rejects no job for its size: its
    nodes may not have joined yet.
    """
    return next(filter(None, (_refusal(snapshot, each) for each in jobs_of_steps(job))), None)


def _refusal(snapshot: Snapshot, job: Job) -> Verdict | None:
    demands = demands_of(job)
    table = with_all_nodes_up(snapshot.table)
    empty = QueueUsage(tree_of(snapshot.queues), {}, {})
    # 1. the request itself
    if (
        fault := _request_fault(demands)
        or request_fault(demands)
        or unavailability(table, demands)
        or check_topology_request(table, demands)
    ):
        return _rejection(fault)
    # 2. its queue
    if queue_named(snapshot.queues, job.queue) is None:
        return _rejection(_unknown_queue(job.queue, snapshot.queues))
    if job.queue in empty.tree.faults:
        return quota.quota_verdict(empty, job.queue, {})
    # 3. the quota and limits of its queue, and the nodes, as if all were up and empty
    if verdict := _quota_fault(empty, job, demands):
        role = _largest_role(demands, verdict.resource)
    elif short := find_shortage(FreeCapacities(table.capacity), table, demands) if table.nodes else None:
        verdict, role = impossible_verdict(short), short.demand.role
    else:
        return None
    text = f"{verdict.message}; {_largest(table, empty, job, demands, role)}"
    return replace(verdict, reason=Reason.MISCONFIGURED, message=text)


def priority_refusal(snapshot: Snapshot, job: Job) -> Verdict | None:
    """Returns why its queue refuses the job's priority, as the job's owner wrote it by a number; None if it does not.

    A priority by class is not checked: on Kubernetes the backend does that, which knows where a priority is from.
    """
    queue = snapshot.queues.get(job.queue)
    fault = priority_fault(queue.name, queue.max_priority, job.priority) if queue is not None else ""
    return _rejection(fault) if fault else None


def _request_fault(demands: Sequence[Demand]) -> str:
    """Returns a fault that makes the demands invalid for any scheduler, or ""."""
    if not demands:
        return "a job needs at least one role"
    twice = [role for role, times in Counter(demand.role for demand in demands).items() if times > 1]
    if twice:
        return f"two roles are named {twice[0]}; name them apart"
    members = sum(demand.count for demand in demands)
    if members > MAX_MEMBERS:
        return f"asks for {members:,} replicas; a gang has {MAX_MEMBERS:,} at most"
    for demand in demands:
        if demand.count < 1:
            return f"role {demand.role} asks for {demand.count} replicas; ask for one at least"
        negative = [name for name, amount in demand.resources.items() if amount < 0]
        if negative:
            return f"role {demand.role} asks for less than no {negative[0]}"
    return ""


def _rejection(message: str) -> Verdict:
    return Verdict(Reason.MISCONFIGURED, message)


def _unknown_queue(name: str, queues: Iterable[str]) -> str:
    known = sorted({DEFAULT_QUEUE, *queues})
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known[:10])}"
    return f"there is no queue {name}; {hint}"


def _largest_role(demands: Sequence[Demand], resource: str) -> str:
    """Returns the role that requests most of a resource."""
    return max(demands, key=lambda demand: demand.resources.get(resource, 0) * demand.count).role


def _quota_fault(empty: QueueUsage, job: Job, demands: tuple[Demand, ...]) -> Verdict | None:
    """Returns the verdict by which its queue would block the job with these demands without any other usage."""
    request, firm = total_of(demands), None if job.preemptible else empty
    return quota.quota_verdict(empty, job.queue, request, firm) or find_limit(empty, job.queue, "", request)


def _largest(table: NodeTable, empty: QueueUsage, job: Job, demands: tuple[Demand, ...], role: str) -> str:
    """Describes the largest request that fits: fewer replicas of one role, or else smaller ones."""
    requested = next(demand for demand in demands if demand.role == role)
    step = max(requested.topology.slice, 1) if requested.topology else 1
    shrunk = _largest_replica(table, empty.tree, job.queue, requested)
    for size in (requested, shrunk) if any(shrunk.resources.values()) else (requested,):

        def too_many(count: int, size: Demand = size) -> bool:
            return not _is_possible(table, empty, job, _with_role(demands, replace(size, count=count)))

        if most := step * bisect_left(range(step, requested.count + 1, step), x=True, key=too_many):
            replicas = f"{most} replica{'' if most == 1 else 's'}"
            of_role = f" of {role}" if len(demands) > 1 else ""
            return f"largest gang that fits: {replicas}{of_role}{_of_size(requested, size)}"
    smallest = f"slice of {step}" if step > 1 else "replica of any size"
    return f"not even one {smallest} would fit{' beside its other roles' if len(demands) > 1 else ''}"


def _of_size(requested: Demand, size: Demand) -> str:
    """Returns " of 4 gpu", " without gpu" where no node has any requested resource, or "" if none is requested."""
    if asked_amounts(size.resources):
        return f" of {format_amounts(size.resources)}"
    absent = ", ".join(asked_amounts(requested.resources))
    return f" without {absent}" if absent else ""


def _is_possible(table: NodeTable, empty: QueueUsage, job: Job, demands: tuple[Demand, ...]) -> bool:
    return _quota_fault(empty, job, demands) is None and (not table.nodes or fits(table.capacity, table, demands))


def _with_role(demands: tuple[Demand, ...], changed: Demand) -> tuple[Demand, ...]:
    return tuple(changed if demand.role == changed.role else demand for demand in demands)


def _largest_replica(table: NodeTable, tree: Tree, queue: str, demand: Demand) -> Demand:
    """Returns the largest replica of this kind that a single node can hold and the queue permits."""
    allowed = {name: user_maximum(tree, queue, name, amount) for name, amount in demand.resources.items()}
    rows = np.flatnonzero(eligibility(table, replace(demand, resources={})).mask)
    best = dict.fromkeys(allowed, 0)
    for row in rows.tolist():
        there = {name: min(amount, _amount(table, row, name)) for name, amount in allowed.items()}
        best = max(best, there, key=lambda amounts: [amounts.get(name, 0) for name in table.resource_names])
    return replace(demand, resources=best if table.nodes else allowed)


def _amount(table: NodeTable, row: int, resource: str) -> int:
    if is_exclusive(resource):
        return 1
    column = table.column.get(resource)
    return 0 if column is None else int(table.capacity[row, column])
