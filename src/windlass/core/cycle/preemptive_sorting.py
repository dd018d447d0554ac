"""Cycle of the preemptive orders (`srtf`, `srsf`, `las`): every change sorts and places all gangs anew.

The cycle decides on a cluster without the gangs that may be preempted; a running gang that gets no place is stopped.
For research and comparison: it preempts freely, without fair shares and without reservations for blocked gangs.
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
from windlass.core.nodes.allocation import allocate_grant
from windlass.core.nodes.node_filters import Mask
from windlass.core.placement.gang_placement import Placed, place
from windlass.core.queues.limits import find_limit
from windlass.core.queues.orders.registry import order_of, sort_key_of
from windlass.core.queues.queue_order import LazyOrder, QueueOrder
from windlass.core.queues.queue_tree import tree_of
from windlass.core.queues.quota import exceeds_available
from windlass.core.queues.usage import QueueUsage

_LATEST = 2**62
"""Later than any time in ms: stands for the last stop of a running gang when levels of `las` are sorted."""


def schedule_preemptively(snapshot: Snapshot, now: int) -> tuple[Plan, PreemptiveReasons]:
    """Decides which gangs run from now on. A gang that gets nodes of a stopped gang starts with a later plan."""
    # 1. gangs that may be preempted, and the cluster without them
    movable = {run.id: run for run in snapshot.running.values() if _is_movable(snapshot, run, now)}
    cycle = SchedulingCycle(_without_movable(snapshot, movable), now)
    # 2. gangs that run: in the policy's order, each that still fits
    chosen = _choose_gangs(cycle, movable, now)
    # 3. places: running gangs stay where they are, if all the others then fit too
    where = _place_chosen(cycle, chosen, snapshot.grants)
    # 4. gangs that stop, and gangs that start on nodes which no gang has to release first
    stays = {
        run.id: run
        for run in snapshot.running.values()
        if run.id not in movable or (run.id in where and _is_same_grant(where[run.id].grant, snapshot.grants[run.id]))
    }
    stopping = [run for run in snapshot.running.values() if run.stopping or run.id not in stays]
    starts = [start for start in chosen if start.gang.id not in movable]
    begin = list(_starts_at_once(snapshot, stopping, starts, where))
    comes = [Start(start.gang, *where[start.gang.id]) for start in chosen if start.gang.id not in stays]
    verdicts = PreemptiveReasons(snapshot, now, {run.id for run in stopping}, comes, {start.gang.id for start in begin})
    plan = Plan(
        snapshot.version,
        now,
        tuple(Admission(start.gang.id, *where[start.gang.id]) for start in begin),
        verdicts,
        tuple(_preemption(run, starts, where, snapshot) for run in stopping if not run.stopping),
        order=verdicts.order(),
        due=_due(snapshot, [*stays.values(), *(start_gang(start.gang, start.placement, now) for start in begin)], now),
    )
    return plan, verdicts


# --- preemptible gangs ----------------------------------------------------------------------------


def _is_movable(snapshot: Snapshot, run: RunningGang, now: int) -> bool:
    """Whether a running gang may be preempted or moved; not on closed nodes, nor if policy or job protect it."""
    policy = snapshot.policy
    if run.stopping or run.is_unevictable(now) or not (policy.preempt and run.preemptible):
        return False
    if now - run.admitted_at < policy.min_runtime:
        return False
    return bool(snapshot.table.usable[snapshot.grants[run.id].rows].all())


def _without_movable(snapshot: Snapshot, movable: Iterable[str]) -> Snapshot:
    ledger = Ledger.at(snapshot)
    for job_id in movable:
        ledger.release(job_id)
    for run in snapshot.running.values():
        if run.stopping:
            ledger.release(run.id)
    return ledger.snapshot()


def _as_pending(run: RunningGang, now: int) -> PendingGang:
    """A running gang as if it waited, with the service that it has attained by now."""
    return replace(requeue_gang(run, now), stopped_at=_LATEST - run.admitted_at)


# --- choice and placement -------------------------------------------------------------------------


def _choose_gangs(cycle: SchedulingCycle, movable: Mapping[str, RunningGang], now: int) -> list[Start]:
    snapshot, policy = cycle.snapshot, cycle.snapshot.policy
    classes = [each for each in snapshot.classes if not cycle.is_gated(each.gangs[0])]
    queue_order = QueueOrder(classes)
    running = sorted((_as_pending(run, now) for run in movable.values()), key=lambda gang: sort_key_of(gang, policy))
    for gang in merge(running, queue_order, key=lambda gang: sort_key_of(gang, policy)):
        if (cycle.find_obstacle(gang) or cycle.try_to_start(gang)) and gang.id not in movable:
            queue_order.drop()
    return cycle.started


def _place_chosen(cycle: SchedulingCycle, chosen: list[Start], grants: Mapping[str, Grant]) -> dict[str, Placed]:
    """By id of the chosen gangs: their nodes. Running gangs stay in place if all others fit too; else some move."""
    snapshot = cycle.snapshot
    as_chosen = {each.gang.id: Placed(each.placement, each.grant) for each in chosen}
    if snapshot.reservations:
        return as_chosen  # advance reservations were considered when they were chosen
    free = snapshot.free.copy(order="F")
    for start in chosen:
        if start.gang.id in grants:
            allocate_grant(snapshot.table, free, grants[start.gang.id])
    found: dict[str, Placed] = {}
    for start in chosen:
        if start.gang.id in grants:
            found[start.gang.id] = Placed(start.placement, grants[start.gang.id])
            continue
        placed = place(free, snapshot.table, start.gang.demands, None, snapshot.policy)
        if placed is None:
            return as_chosen
        allocate_grant(snapshot.table, free, placed.grant)
        found[start.gang.id] = placed
    return found


def _starts_at_once(
    snapshot: Snapshot, stopping: list[RunningGang], starts: list[Start], where: Mapping[str, Placed]
) -> Iterator[Start]:
    """The gangs that start at once: on nodes, and within quotas, that no gang has to release first."""
    left = _held_rows(snapshot, stopping)
    usage = QueueUsage(tree_of(snapshot.queues), snapshot.usage_by_queue, snapshot.usage_by_user)
    for start in starts:
        queue, user, request = start.gang.queue, start.gang.user, total_of(start.gang.demands)
        if left[where[start.gang.id].grant.rows].any():
            continue
        if not exceeds_available(usage, queue, request) and find_limit(usage, queue, user, request) is None:
            usage.add(queue, user, request)
            yield start


def _is_same_grant(one: Grant, other: Grant) -> bool:
    if one is other:
        return True
    mine, theirs = np.argsort(one.rows), np.argsort(other.rows)
    rows = np.array_equal(one.rows[mine], other.rows[theirs])
    return rows and np.array_equal(one.amounts[mine], other.amounts[theirs])


def _held_rows(snapshot: Snapshot, gangs: Iterable[RunningGang]) -> Mask:
    """bool[N]: nodes on which these gangs hold anything."""
    held = np.zeros(len(snapshot.table.nodes), dtype=np.bool_)
    for gang in gangs:
        held[snapshot.grants[gang.id].rows] = True
    return held


# --- verdicts ---------------------------------------------------------------------------------------


def _preemption(run: RunningGang, starts: list[Start], where: Mapping[str, Placed], snapshot: Snapshot) -> Preemption:
    mine = _held_rows(snapshot, [run])
    by = next((start.gang.id for start in starts if mine[where[start.gang.id].grant.rows].any()), "")
    moved = "gets other nodes" if run.id in where else "its turn is over"
    return Preemption(run.id, by, f"{moved}, by order {snapshot.policy.order}")


class PreemptiveReasons(Mapping[str, Verdict]):
    """Verdicts of the gangs that wait for nodes to be released, then of those for which there is no room."""

    def __init__(self, snapshot: Snapshot, now: int, gone: Iterable[str], comes: list[Start], begin: set[str]) -> None:
        """`gone`: ids of gangs that stop. `comes`: gangs that start, at once (`begin`) or once those have gone.

        Some ids are in both: these gangs get other nodes.
        """
        self._snapshot, self._now = snapshot, now
        self._gone = frozenset(gone)
        self._comes = comes
        verdict = Verdict(Reason.WAITING_FOR_PREEMPTED, "its nodes are being given back")
        self._verdicts = {
            start.gang.id: verdict
            for start in comes
            if start.gang.id not in begin and start.gang.id not in snapshot.running
        }

    @cached_property
    def cycle(self) -> SchedulingCycle:
        """The cycle as it will be once all stopped gangs have gone and all chosen gangs have started."""
        ledger = Ledger.at(self._snapshot)
        for job_id in self._gone:
            ledger.release(job_id)
        cycle = SchedulingCycle(ledger.snapshot(), self._now)
        for start in self._comes:
            cycle.start(start.gang, Placed(start.placement, start.grant))
        return cycle

    def order(self) -> LazyOrder:
        """Ids of the gangs whose gates are open, in queue order."""
        return LazyOrder(lambda: (*self._verdicts, *self._others.order()))

    @cached_property
    def _others(self) -> PendingReasons:
        return PendingReasons(self.cycle)

    def __getitem__(self, job_id: str) -> Verdict:
        return self._verdicts[job_id] if job_id in self._verdicts else self._others[job_id]

    def __iter__(self) -> Iterator[str]:
        yield from self._verdicts
        yield from self._others

    def __len__(self) -> int:
        return len(self._verdicts) + len(self._others)


def _due(snapshot: Snapshot, running: list[RunningGang], now: int) -> int | None:
    """The next time, in ms, at which time alone may change the order or the gangs that may be preempted."""
    policy = snapshot.policy
    moments = [run.admitted_at + policy.min_runtime for run in running]
    moments += [run.unevictable_until for run in running if run.unevictable_until is not None]
    moments += [at for each in snapshot.reservations for at in (each.start, each.end)]
    moments += [each.gangs[0].begin or 0 for each in snapshot.classes]
    moments = moments if snapshot.classes else []
    if (next_change := order_of(policy).next_change) is not None:
        moments += [at for run in running if (at := next_change(run, policy, now)) is not None]
    return min((at for at in moments if at > now), default=None)
