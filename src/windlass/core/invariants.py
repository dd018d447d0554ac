"""Invariants of snapshots, job states and plans, as functions that yield their violations. For tests and the simulator.

An administrator can break some of them from outside, by declaring a smaller node, quota or limit than is in use:
`overallocated_nodes`, `quota_violations` and `limit_violations`. No gang starts there until enough has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from windlass.core.ledger import Ledger
from windlass.core.model.devices import is_hidden
from windlass.core.model.elastic_size import merged_placement
from windlass.core.model.gang import Demand, PendingGang, demands_as_placed, is_placed_elsewhere, start_gang, total_of
from windlass.core.model.plan import Plan
from windlass.core.model.resources import WHOLE
from windlass.core.model.snapshot import NodeTable, Snapshot
from windlass.core.model.status import HOLDING, JobState, Phase, Placement
from windlass.core.nodes.allocation import allocate_grant, compute_grant
from windlass.core.nodes.device_assignment import held_devices
from windlass.core.nodes.exclusive_rows import exclusive_names
from windlass.core.nodes.feasibility import eligibility
from windlass.core.queues.queue_tree import charge, tree_of
from windlass.core.queues.quota import format_amount
from windlass.core.queues.running_sums import RunningSums
from windlass.core.queues.usage import QueueUsage


def snapshot_violations(snapshot: Snapshot, states: Mapping[str, JobState] | None = None) -> list[str]:
    """Returns all violations in a snapshot, and between it and the jobs' states. Empty: none."""
    found = [
        *overallocated_nodes(snapshot),
        *shared_devices_violations(snapshot),
        *exclusive_violations(snapshot),
        *quota_violations(snapshot),
        *limit_violations(snapshot),
        *partial_gangs(snapshot),
        *duplicate_gangs(snapshot),
        *wrong_sums(snapshot),
    ]
    return found if states is None else [*found, *state_mismatches(snapshot, states)]


def overallocated_nodes(snapshot: Snapshot) -> Iterator[str]:
    """Yields nodes that give more than they have."""
    table = snapshot.table
    for row, column in zip(*np.nonzero(snapshot.free < 0), strict=True):
        if not is_hidden(resource := table.resource_names[column]):
            yield f"node {table.nodes[row].name} gives {-snapshot.free[row, column]} {resource} too many"


def shared_devices_violations(snapshot: Snapshot) -> Iterator[str]:
    """Yields shared GPUs that give more than their thousandths, or one slice twice."""
    table = snapshot.table
    held: Counter[tuple[int, int]] = Counter()
    for gang in snapshot.running.values():
        for demand in gang.demands:
            names, numbers = gang.placement.nodes.get(demand.role, ()), gang.placement.devices.get(demand.role, ())
            for row, column, amount in held_devices(table, demand, names, numbers):
                yield from _overlaps(table, gang.id, row, column, held[row, column], amount)
                held[row, column] += amount


def _overlaps(table: NodeTable, job_id: str, row: int, column: int, held: int, amount: int) -> Iterator[str]:
    devices = table.devices
    if devices is None:
        return
    over = held + amount > WHOLE if devices.milli[row] else bool(held & amount)
    if over:
        yield f"{job_id} holds of GPU {column - devices.first} on {table.nodes[row].name} what another one holds"


def exclusive_violations(snapshot: Snapshot) -> Iterator[str]:
    """Yields nodes on which two replicas hold the same exclusive resource."""
    held = Counter(
        (node, name)
        for gang in snapshot.running.values()
        for demand in gang.demands
        for name in set(exclusive_names([demand]))
        for node in gang.placement.nodes.get(demand.role, ())
    )
    yield from (f"{times} replicas on {node} hold {name}" for (node, name), times in held.items() if times > 1)


def quota_violations(snapshot: Snapshot) -> Iterator[str]:
    """Yields trees that hold more than the sum of their quotas, and queues beyond their borrowing or lending limits."""
    tree = tree_of(snapshot.queues)
    held = RunningSums.at(snapshot)
    usage = QueueUsage(tree, held.by_queue, held.by_user)
    for name, path in tree.path.items():
        drawn, quota = usage.charged(name), tree.quota[name]
        for resource in sorted(tree.limited_resources[name]):
            used, has = drawn.get(resource, 0), quota.get(resource, 0)
            most = tree.borrowing[name].get(resource) if len(path) > 1 else 0
            if most is not None and used > has + most:
                of = format_amount(resource, has + most)
                yield f"queue {name} holds {format_amount(resource, used)} {resource} of {of}"


def limit_violations(snapshot: Snapshot) -> Iterator[str]:
    """Yields queues that run more jobs than permitted, and users that run or hold more than permitted."""
    tree = tree_of(snapshot.queues)
    held = RunningSums.at(snapshot)
    usage = QueueUsage(tree, held.by_queue, held.by_user)
    users = sorted({user for _, user in snapshot.usage_by_user})
    for name in sorted(tree.job_limited):
        rules, all_jobs = tree.queues[name], usage.user_usage(name).jobs
        if 0 < rules.max_running < all_jobs:
            yield f"queue {name} runs {all_jobs} jobs of {rules.max_running}"
        for user in users:
            used = usage.user_usage(name, user)
            if 0 < rules.user_running < used.jobs:
                yield f"{user} runs {used.jobs} jobs of {rules.user_running} in queue {name}"
            for resource, most in rules.user_limits.items():
                if used.amounts.get(resource, 0) > charge({resource: most}, resource):
                    yield f"{user} holds more than {most} {resource} in queue {name}"


def partial_gangs(snapshot: Snapshot) -> Iterator[str]:
    """Yields gangs without a node for each of their replicas."""
    for gang in snapshot.running.values():
        yield from _unplaced_replicas(gang.id, gang.demands, gang.placement)


def _unplaced_replicas(job_id: str, demands: tuple[Demand, ...], placement: Placement) -> Iterator[str]:
    for demand in demands:
        placed = len(placement.nodes.get(demand.role, ()))
        if placed != demand.count:
            yield f"{job_id} has {placed} of {demand.count} replicas of {demand.role} placed"


def duplicate_gangs(snapshot: Snapshot) -> Iterator[str]:
    """Yields jobs that both wait and hold nodes, or wait more than once."""
    times = Counter(gang.id for gang in snapshot.pending)
    yield from (f"{job_id} waits {count} times" for job_id, count in times.items() if count > 1)
    yield from (f"{job_id} both waits and holds" for job_id in times if job_id in snapshot.running)


def wrong_sums(snapshot: Snapshot) -> Iterator[str]:
    """Yields sums of the ledger that differ from the sums over all gangs."""
    free = snapshot.table.capacity.copy(order="F")
    held: dict[str, Counter[str]] = {}
    for gang in snapshot.running.values():
        allocate_grant(snapshot.table, free, compute_grant(snapshot.table, gang.demands, gang.placement))
        held.setdefault(gang.queue, Counter()).update(total_of(gang.demands))
    for row in np.flatnonzero((free != snapshot.free).any(axis=1)):
        yield f"node {snapshot.table.nodes[row].name} has {snapshot.free[row]} free by the ledger, {free[row]} by count"
    usage = RunningSums.at(snapshot).by_queue
    for name in sorted(held.keys() | usage.keys()):
        counted, kept = +held.get(name, Counter()), usage.get(name, {})
        if counted != kept:
            yield f"queue {name} holds {dict(kept)} by the ledger, {dict(counted)} by count"
    arrays = Counter(gang.array_id for gang in snapshot.running.values() if gang.array_id)
    if arrays != snapshot.running_by_array:
        yield f"arrays hold {dict(snapshot.running_by_array)} by the ledger, {dict(arrays)} by count"
    ends = sorted((gang.ends_by, gang.id) for gang in snapshot.running.values() if gang.ends_by is not None)
    if ends != list(snapshot.walltime_ends):
        yield f"walltimes end at {list(snapshot.walltime_ends)} by the ledger, {ends} by count"


def state_mismatches(snapshot: Snapshot, states: Mapping[str, JobState]) -> Iterator[str]:
    """Yields jobs whose state differs from the scheduler's view of them."""
    waiting = {gang.id for gang in snapshot.pending}
    for job_id, state in states.items():
        status = state.status
        if (status.phase is Phase.QUEUED) != (job_id in waiting):
            yield f"{job_id} is {status.phase}, and {'waits' if job_id in waiting else 'does not wait'}"
        if (status.placement is not None) != (job_id in snapshot.running):
            yield f"{job_id} is {status.phase} on {status.placement}, and the ledger has it otherwise"
        if status.placement is not None and status.phase not in HOLDING:
            yield f"{job_id} is {status.phase} and has nodes"
    strays = sorted((waiting | snapshot.running.keys()) - states.keys())
    yield from (f"{job_id} is unknown, and the ledger has it" for job_id in strays)


def plan_violations(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Returns all violations in a plan for this snapshot, and in the snapshot that carrying it out leaves behind."""
    waiting = {gang.id: gang for gang in snapshot.pending}
    admitted = [admission.job_id for admission in plan.admissions]
    found = [f"{job_id} starts twice" for job_id, times in Counter(admitted).items() if times > 1]
    found += [f"{job_id} starts, and did not wait" for job_id in admitted if job_id not in waiting]
    if plan.verdicts.keys() != waiting.keys() - set(admitted):
        found.append("the verdicts are not those of the gangs that stay")
    known = [admission for admission in plan.admissions if admission.job_id in waiting]
    for admission in known:
        found += _forbidden_nodes(snapshot.table, waiting[admission.job_id], admission.placement)
    found += _wrong_changes(snapshot, plan)
    return [*found, *snapshot_violations(_snapshot_after(snapshot, waiting, replace(plan, admissions=tuple(known))))]


def _wrong_changes(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    """Yields changes of gangs that do not run, change twice, may not be stopped, or leave their bounds."""
    changed = [preemption.job_id for preemption in plan.preemptions] + [resize.job_id for resize in plan.resizes]
    yield from (f"{job_id} is stopped or resized twice" for job_id, times in Counter(changed).items() if times > 1)
    for job_id in changed:
        run = snapshot.running.get(job_id)
        if run is None or run.stopping:
            yield f"{job_id} is stopped or resized, and {'is leaving' if run else 'does not run'}"
    for preemption in plan.preemptions:
        if preemption.job_id in snapshot.running and not snapshot.running[preemption.job_id].preemptible:
            yield f"{preemption.job_id} is stopped, and is not preemptible"
    for resize in plan.resizes:
        for demand in snapshot.running[resize.job_id].demands if resize.job_id in snapshot.running else ():
            number = len(resize.placement.nodes.get(demand.role, ()))
            least, most = demand.min_count or demand.count, demand.max_count or demand.count
            if not least <= number <= most:
                yield f"{resize.job_id} is to have {number} replicas of {demand.role}, and may have {least} to {most}"


def _forbidden_nodes(table: NodeTable, gang: PendingGang, placement: Placement) -> Iterator[str]:
    for demand in () if is_placed_elsewhere(gang.demands) else gang.demands:
        able = eligibility(table, demand).mask
        for name in set(placement.nodes.get(demand.role, ())):
            if not able[table.row[name]]:
                yield f"{gang.id} starts on {name}, which {demand.role} may not use"
    yield from _out_of_domain(table, gang, placement)


def _out_of_domain(table: NodeTable, gang: PendingGang, placement: Placement) -> Iterator[str]:
    """Yields gangs outside their required domains: all in one, each slice in one, or evenly spread."""
    near = gang.demands[0].topology
    if near is None or not near.required:
        return
    level = table.topology.levels.index(near.level)
    for role, names in placement.nodes.items():
        domains = [int(table.domains[table.row[name], level]) for name in names]
        numbers = Counter(domains).values()
        size = near.slice or len(domains)
        if near.spread:
            if max(numbers) - min(numbers) > 1:
                yield f"{gang.id} starts with {sorted(numbers)} replicas of {role} by {near.level}"
        elif any(len(set(domains[first : first + size])) > 1 for first in range(0, len(domains), size)):
            yield f"{gang.id} starts with {role} in several domains of {near.level}"
    rows = [table.row[name] for name in placement.distinct()]
    if not near.spread and not near.slice and len(set(table.domains[rows, level].tolist())) > 1:
        yield f"{gang.id} starts in several domains of {near.level}"


def _snapshot_after(snapshot: Snapshot, waiting: Mapping[str, PendingGang], plan: Plan) -> Snapshot:
    """Returns the snapshot that the plan leaves behind: gangs that are being stopped still hold their nodes."""
    ledger = Ledger.at(snapshot)
    for resize in plan.resizes:
        if (run := snapshot.running.get(resize.job_id)) is not None:
            held = merged_placement(run.placement, resize.placement)
            demands = demands_as_placed(run.demands, held)
            ledger.hold(replace(run, placement=held, demands=demands, resize_to=resize.placement))
    for admission in plan.admissions:
        ledger.hold(start_gang(waiting[admission.job_id], admission.placement, plan.now))
    return ledger.snapshot()
