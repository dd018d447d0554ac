"""The full explanation of a waiting gang: nodes, gangs ahead, expected releases, and requests that would start now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from windlass.core.cycle.scheduler import schedule_with_cycle
from windlass.core.cycle.scheduling_cycle import SchedulingCycle
from windlass.core.explain.alternatives import Alternative, find_alternatives
from windlass.core.explain.node_choice import RoleChoice, role_choices
from windlass.core.explain.start_estimate import expected_start
from windlass.core.model.gang import Demand, PendingGang, RunningGang, minimum_demands, start_gang
from windlass.core.model.node import Node
from windlass.core.model.reasons import Verdict
from windlass.core.model.snapshot import Grant, NodeTable, Snapshot
from windlass.core.nodes.feasibility import eligibility, room_per_node
from windlass.core.nodes.node_filters import CORDONED, Mask
from windlass.core.placement.elastic_resizing import fixed_size_reason
from windlass.core.placement.empty_cluster_fit import fits_empty
from windlass.core.placement.gang_placement import role_orders
from windlass.core.placement.shortage import find_shortage
from windlass.core.queues import quota


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node as the limiting role sees it. Amounts are of the limiting resource, in its own unit."""

    node: str
    fits: int
    """Number of replicas that fit there now."""
    free: int
    capacity: int
    cause: str = ""
    """The reason why the node cannot be used at all: "label zone=a", "cordoned (Xid 79)", … "": it can be used."""
    held_for: str = ""
    """The gang ahead that waits for this node."""


@dataclass(frozen=True, slots=True)
class CapacityHolder:
    """A gang that holds the missing resource."""

    job_id: str
    ends_by: int | None
    """In ms; None: it has no walltime."""
    amount: int
    nodes: tuple[tuple[str, int], ...]
    """(node, amount) of what it holds."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that `windlass why` shows about one gang."""

    job_id: str
    verdict: Verdict | None
    """None: it starts now."""
    role: str
    """The limiting role, and the resource of which it finds least ("" if it requests none that exists)."""
    resource: str
    position: int | None
    """From 1, among the gangs that wait for nodes. None: a gate blocks it, or it starts now."""
    ahead: tuple[str, ...]
    """Gangs with a better position, next first."""
    nodes: tuple[NodeView, ...]
    """Sorted by topology place, then name."""
    frees: tuple[CapacityHolder, ...]
    """Soonest end first, gangs without a walltime last."""
    expected: int | None
    """Expected start in ms, if every gang uses its whole walltime and no new one arrives; None: unknown. The verdict's
    `eta` is a bound that holds whatever else waits; this is an expectation.
    """
    not_before: int | None
    """End of its backoff, or its begin time, in ms: the later one. None: neither keeps it from starting."""
    would_start: tuple[Alternative, ...]
    keeps_its_size: str = ""
    """The reason why an elastic gang is not resized while it runs; "": it may be resized."""
    chosen: tuple[RoleChoice, ...] = ()
    """For a gang that starts now: its nodes by role, and how they were chosen."""


def explain(snapshot: Snapshot, job_id: str, now: int) -> Explanation:
    """Explains why a gang of the snapshot waits. `now` in ms. Raises KeyError if it does not wait."""
    gang = next((gang for each in snapshot.classes for gang in each.gangs if gang.id == job_id), None)
    if gang is None:
        raise KeyError(job_id)
    plan, cycle = schedule_with_cycle(snapshot, now, watched=job_id)
    starts = next((admission.placement for admission in plan.admissions if admission.job_id == job_id), None)
    started = any(start.gang.id == job_id for start in cycle.started)
    demand, column = _limiting_demand(cycle, gang)
    order = tuple(plan.order)
    position = order.index(job_id) + 1 if job_id in order else None
    table = snapshot.table
    resource = "" if column is None else table.resource_names[column]
    return Explanation(
        job_id=job_id,
        verdict=plan.verdicts.get(job_id),
        role=demand.role,
        resource=resource,
        position=position,
        ahead=order[: position - 1] if position else (),
        nodes=tuple(_node_views(cycle, gang, demand, column)),
        frees=_holders(cycle, gang, demand, resource) if position and not started else (),
        expected=now if starts is not None else expected_start(snapshot, gang, now),
        not_before=gang.earliest_start if gang.earliest_start > now else None,
        would_start=find_alternatives(snapshot, gang, now) if position else (),
        keeps_its_size=fixed_size_reason(gang.demands),
        chosen=role_choices(cycle.watched_view, table, gang.demands, starts, snapshot.policy)
        if starts is not None
        else (),
    )


def _limiting_demand(cycle: SchedulingCycle, gang: PendingGang) -> tuple[Demand, int | None]:
    """Returns the role that fails first, as in the verdict, or else the hardest; and its scarcest column."""
    table = cycle.snapshot.table
    stock = cycle.free_capacities if fits_empty(table, gang) else cycle.total_capacities
    demands = minimum_demands(gang.demands)
    short = find_shortage(stock, table, demands)
    demand = short.demand if short else next(iter(role_orders(table, demands)))[0]
    able = eligibility(table, demand)
    free = stock.of(able)
    column, each = free.binding(able, free.rooms(able, demand.count))
    return demand, column if each else None


def _node_views(cycle: SchedulingCycle, gang: PendingGang, demand: Demand, column: int | None) -> Iterator[NodeView]:
    table = cycle.snapshot.table
    able = eligibility(table, demand)
    counts = room_per_node(cycle.free, able, None, demand.count).tolist()
    free, capacity = ([0] * len(counts),) * 2 if column is None else _columns(cycle, column)
    ahead = [hold for hold in cycle.reserved_nodes if hold.gang.id != gang.id]
    for row, node in enumerate(table.nodes):
        lost = able.filter_result.lost[row]
        holder = next((hold.gang.id for hold in ahead if hold.mask[row]), "") if lost < 0 else ""
        cause = "" if lost < 0 else _cause(able.filter_result.causes[lost], node)
        yield NodeView(node.name, counts[row], max(free[row], 0), capacity[row], cause, holder)


def _columns(cycle: SchedulingCycle, column: int) -> tuple[list[int], list[int]]:
    return cycle.free[:, column].tolist(), cycle.snapshot.table.capacity[:, column].tolist()


def _cause(cause: str, node: Node) -> str:
    return f"{cause} ({node.cordoned})" if cause == CORDONED else cause


def _holders(cycle: SchedulingCycle, gang: PendingGang, demand: Demand, resource: str) -> tuple[CapacityHolder, ...]:
    """Returns the holders of what is missing: quota of the same tree, or the resource on eligible nodes."""
    table = cycle.snapshot.table
    lacking = quota.exceeds_available(cycle.usage, gang.queue, gang.minimum_request)
    holding = _grants(cycle)
    if lacking and lacking in table.column:
        resource, mask = lacking, np.ones(len(table.nodes), dtype=np.bool_)
        holding = ((run, grant) for run, grant in holding if _is_in_tree(cycle, run.queue, gang.queue))
    elif resource and find_shortage(cycle.free_capacities, table, minimum_demands(gang.demands)):
        mask = eligibility(table, demand).mask
    else:
        return ()
    found = [_holder(table, run, grant, resource, mask) for run, grant in holding]
    return tuple(sorted((freeing for freeing in found if freeing.amount), key=_end_key))


def _is_in_tree(cycle: SchedulingCycle, queue: str, other: str) -> bool:
    path = cycle.usage.tree.path
    return path.get(queue, (queue,))[-1] == path.get(other, (other,))[-1]


def _grants(cycle: SchedulingCycle) -> Iterator[tuple[RunningGang, Grant]]:
    snapshot = cycle.snapshot
    for run in snapshot.running.values():
        yield run, snapshot.grants[run.id]
    for start in cycle.started:
        yield start_gang(start.gang, start.placement, cycle.now), start.grant


def _holder(table: NodeTable, run: RunningGang, grant: Grant, resource: str, mask: Mask) -> CapacityHolder:
    rows = [(row, number) for number, row in enumerate(grant.rows.tolist()) if mask[row]]
    nodes = tuple((table.nodes[row].name, int(grant.amounts[number, table.column[resource]])) for row, number in rows)
    nodes = tuple((name, amount) for name, amount in nodes if amount)
    return CapacityHolder(run.id, run.ends_by, sum(amount for _, amount in nodes), nodes)


def _end_key(freeing: CapacityHolder) -> tuple[bool, int, str]:
    return freeing.ends_by is None, freeing.ends_by or 0, freeing.job_id
