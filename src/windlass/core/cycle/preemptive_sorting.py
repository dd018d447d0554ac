"""Preemptive orders (`srtf`, `srsf`, `las`): at every change everything, running or not, is sorted and placed anew.

Who runs is decided on a cluster emptied of everybody who may be stopped; a gang that runs and gets no place is stopped.
For research and comparison: it stops gangs freely, and knows no fair shares and no reservations for who is blocked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from heapq import merge

import numpy as np

from windlass.core.cycle.pending_reasons import PendingReasons
from windlass.core.cycle.scheduling_cycle import SchedulingCycle, Start
from windlass.core.ledger import Ledger
from windlass.core.model.gang import PendingGang, RunningGang, requeue_gang, start_gang, total_of
from windlass.core.model.plan import Admission, Plan, Preemption
from windlass.core.model.reasons import Reason, Verdict
from windlass.core.model.snapshot import Grant, Snapshot
from windlass.core.nodes.allocation import take
from windlass.core.nodes.node_filters import Mask
from windlass.core.placement.gang_placement import Placed, place
from windlass.core.queues.admission_gates import is_gated
from windlass.core.queues.limits import find_limit
from windlass.core.queues.orders.registry import order_of, turn_of
from windlass.core.queues.queue_order import LazyOrder, QueueOrder
from windlass.core.queues.queue_tree import tree_of
from windlass.core.queues.quota import exceeds_available
from windlass.core.queues.usage import QueueUsage

_LATEST = 2**62
"""Later than any time: when a gang that runs was last stopped, for the order among those of a queue of `las`."""


def schedule_preemptively(snapshot: Snapshot, now: int) -> tuple[Plan, PreemptiveReasons]:
    """Decide who runs from now on. Who gets nodes that a stopped gang has yet to give back starts with a later plan."""
    # 1. who may be stopped, and the cluster without them
    movable = {run.id: run for run in snapshot.running.values() if _movable(snapshot, run, now)}
    cycle = SchedulingCycle(_without(snapshot, movable), now)
    # 2. who runs: in the policy's order, each that still finds room
    chosen = _choose(cycle, movable, now)
    # 3. where: whoever runs stays where it is, if all the others then find room too
    where = _where(cycle, chosen, snapshot.grants)
    # 4. who stops, and who starts on nodes that nobody has to leave first
    stays = {
        run.id: run
        for run in snapshot.running.values()
        if run.id not in movable or (run.id in where and _same(where[run.id].grant, snapshot.grants[run.id]))
    }
    stopping = [run for run in snapshot.running.values() if run.leaving or run.id not in stays]
    starts = [start for start in chosen if start.gang.id not in movable]
    begin = list(_beside(snapshot, stopping, starts, where))
    comes = [Start(start.gang, *where[start.gang.id]) for start in chosen if start.gang.id not in stays]
    verdicts = PreemptiveReasons(snapshot, now, {run.id for run in stopping}, comes, {start.gang.id for start in begin})
    plan = Plan(
        snapshot.version,
        now,
        tuple(Admission(start.gang.id, *where[start.gang.id]) for start in begin),
        verdicts,
        tuple(_preemption(run, starts, where, snapshot) for run in stopping if not run.leaving),
        order=verdicts.order(),
        due=_due(snapshot, [*stays.values(), *(start_gang(start.gang, start.placement, now) for start in begin)], now),
    )
    return plan, verdicts


# --- who may be stopped ---------------------------------------------------------------------------


def _movable(snapshot: Snapshot, run: RunningGang, now: int) -> bool:
    """Gangs on closed nodes may end there, and nobody is stopped whom the policy or the gang itself protects."""
    policy = snapshot.policy
    if run.leaving or not (policy.preempt and run.preemptible) or now - run.admitted_at < policy.min_runtime:
        return False
    return bool(snapshot.table.usable[snapshot.grants[run.id].rows].all())


def _without(snapshot: Snapshot, movable: Iterable[str]) -> Snapshot:
    ledger = Ledger.at(snapshot)
    for job_id in movable:
        ledger.release(job_id)
    for run in snapshot.running.values():
        if run.leaving:
            ledger.release(run.id)
    return ledger.snapshot()


def _contender(run: RunningGang, now: int) -> PendingGang:
    """A gang that runs, as if it waited, with what it has been served by now."""
    return replace(requeue_gang(run, now), stopped_at=_LATEST - run.admitted_at)


# --- who runs, and where --------------------------------------------------------------------------


def _choose(cycle: SchedulingCycle, movable: Mapping[str, RunningGang], now: int) -> list[Start]:
    snapshot, policy = cycle.snapshot, cycle.snapshot.policy
    classes = [each for each in snapshot.classes if not is_gated(each.gangs[0], snapshot.arrays, now)]
    queue_order = QueueOrder(classes)
    running = sorted((_contender(run, now) for run in movable.values()), key=lambda gang: turn_of(gang, policy))
    for gang in merge(running, queue_order, key=lambda gang: turn_of(gang, policy)):
        if (cycle.find_obstacle(gang) or cycle.try_to_start(gang)) and gang.id not in movable:
            queue_order.drop()
    return cycle.started


def _where(cycle: SchedulingCycle, chosen: list[Start], grants: Mapping[str, Grant]) -> dict[str, Placed]:
    """By id of those who run: their nodes. All as they were chosen, so that some move, if there is no other way."""
    snapshot = cycle.snapshot
    as_chosen = {each.gang.id: Placed(each.placement, each.grant) for each in chosen}
    if snapshot.reservations:
        return as_chosen  # which nodes are somebody's own was looked at there
    free = snapshot.free.copy(order="F")
    for start in chosen:
        if start.gang.id in grants:
            take(snapshot.table, free, grants[start.gang.id])
    found: dict[str, Placed] = {}
    for start in chosen:
        if start.gang.id in grants:
            found[start.gang.id] = Placed(start.placement, grants[start.gang.id])
            continue
        placed = place(free, snapshot.table, start.gang.demands, None, snapshot.policy)
        if placed is None:
            return as_chosen
        take(snapshot.table, free, placed.grant)
        found[start.gang.id] = placed
    return found


def _beside(
    snapshot: Snapshot, stopping: list[RunningGang], starts: list[Start], where: Mapping[str, Placed]
) -> Iterator[Start]:
    """Those who start at once: on nodes, and in quotas, that nobody has to give back first."""
    left = _rows(snapshot, stopping)
    usage = QueueUsage(tree_of(snapshot.queues), snapshot.held, snapshot.users)
    for start in starts:
        queue, user, request = start.gang.queue, start.gang.user, total_of(start.gang.demands)
        if left[where[start.gang.id].grant.rows].any():
            continue
        if not exceeds_available(usage, queue, request) and find_limit(usage, queue, user, request) is None:
            usage.take(queue, user, request)
            yield start


def _same(one: Grant, other: Grant) -> bool:
    if one is other:
        return True
    mine, theirs = np.argsort(one.rows), np.argsort(other.rows)
    rows = np.array_equal(one.rows[mine], other.rows[theirs])
    return rows and np.array_equal(one.amounts[mine], other.amounts[theirs])


def _rows(snapshot: Snapshot, gangs: Iterable[RunningGang]) -> Mask:
    """bool[N]: the nodes that these gangs hold anything of."""
    held = np.zeros(len(snapshot.table.nodes), dtype=np.bool_)
    for gang in gangs:
        held[snapshot.grants[gang.id].rows] = True
    return held


# --- what is said of it -----------------------------------------------------------------------------


def _preemption(run: RunningGang, starts: list[Start], where: Mapping[str, Placed], snapshot: Snapshot) -> Preemption:
    mine = _rows(snapshot, [run])
    by = next((start.gang.id for start in starts if mine[where[start.gang.id].grant.rows].any()), "")
    moved = "gets other nodes" if run.id in where else "its turn is over"
    return Preemption(run.id, by, f"{moved}, by order {snapshot.policy.order}")


class PreemptiveReasons(Mapping[str, Verdict]):
    """Of those who wait for nodes to be given back, and then of those for whom there is no room."""

    def __init__(self, snapshot: Snapshot, now: int, gone: Iterable[str], comes: list[Start], begin: set[str]) -> None:
        """`gone`: who stops, or is stopping. `comes`: who starts now (`begin`) or once those have gone, and where.

        Some of these are of the gone: they get other nodes.
        """
        self._snapshot, self._now = snapshot, now
        self._gone = frozenset(gone)
        self._comes = comes
        promised = Verdict(Reason.WAITING_FOR_PREEMPTED, "its nodes are being given back")
        self._promised = {
            start.gang.id: promised
            for start in comes
            if start.gang.id not in begin and start.gang.id not in snapshot.running
        }

    @cached_property
    def cycle(self) -> SchedulingCycle:
        """As it will be once all who stop have gone and all who start have come."""
        ledger = Ledger.at(self._snapshot)
        for job_id in self._gone:
            ledger.release(job_id)
        cycle = SchedulingCycle(ledger.snapshot(), self._now)
        for start in self._comes:
            cycle.start(start.gang, Placed(start.placement, start.grant))
        return cycle

    def order(self) -> LazyOrder:
        """The gangs whose gates are open, by their turn."""
        return LazyOrder(lambda: (*self._promised, *self._others.order()))

    @cached_property
    def _others(self) -> PendingReasons:
        return PendingReasons(self.cycle)

    def __getitem__(self, job_id: str) -> Verdict:
        return self._promised[job_id] if job_id in self._promised else self._others[job_id]

    def __iter__(self) -> Iterator[str]:
        yield from self._promised
        yield from self._others

    def __len__(self) -> int:
        return len(self._promised) + len(self._others)


def _due(snapshot: Snapshot, running: list[RunningGang], now: int) -> int | None:
    """When time alone may change the order or who may be stopped."""
    policy = snapshot.policy
    moments = [run.admitted_at + policy.min_runtime for run in running]
    moments += [at for each in snapshot.reservations for at in (each.start, each.end)]
    moments = moments if snapshot.classes else []
    if (next_change := order_of(policy).next_change) is not None:
        moments += [at for run in running if (at := next_change(run, policy, now)) is not None]
    return min((at for at in moments if at > now), default=None)
