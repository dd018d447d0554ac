"""The scheduler: from a snapshot to a plan, in numbered steps. Each step has a module of its own."""

from __future__ import annotations

from windlass.core.cycle.pending_reasons import PendingReasons
from windlass.core.cycle.queue_passes import backfill_gaps, start_by_turn
from windlass.core.cycle.running_changes import RunningChanges
from windlass.core.cycle.scheduling_cycle import SchedulingCycle
from windlass.core.model.plan import Admission, Plan
from windlass.core.model.snapshot import Snapshot
from windlass.core.queues.admission_gates import next_begin
from windlass.core.queues.orders.registry import order_of


def schedule(snapshot: Snapshot, now: int) -> Plan:
    """Decides which of the pending gangs start now, each whole, and why the others wait.

    Pure: equal snapshots and times give equal plans. `now` in ms.
    """
    return schedule_with_cycle(snapshot, now)[0]


def schedule_with_cycle(snapshot: Snapshot, now: int, watched: str = "") -> tuple[Plan, SchedulingCycle]:
    """The plan, and the cycle as it ends; `watched` is the id of a gang whose view of the nodes the cycle keeps."""
    if order_of(snapshot.policy).preemptive:
        from windlass.core.cycle.preemptive_sorting import schedule_preemptively  # noqa: PLC0415 - for research

        plan, verdicts = schedule_preemptively(snapshot, now)
        return plan, verdicts.cycle
    cycle = SchedulingCycle(snapshot, now, watched)
    changes = RunningChanges(cycle, dry_run=lambda later: _run(SchedulingCycle(later, now)))
    return _plan(_run(cycle, changes), changes), cycle


def _run(cycle: SchedulingCycle, changes: RunningChanges | None = None) -> SchedulingCycle:
    changes = changes or RunningChanges(cycle)
    # 1. gates: gangs that wait for a backoff, another job, their begin time or their array's limit are left out
    classes = [each for each in cycle.snapshot.classes if not cycle.is_gated(each.gangs[0])]
    # 2. by turn: each gang starts, or is blocked; the first blocked gangs hold reservations
    rest = start_by_turn(cycle, changes, classes)
    # 3. backfill: gangs that delay no reservation start in the gaps
    backfill_gaps(cycle, changes, rest)
    # 4. growth: elastic gangs get what no pending gang can use
    changes.grow()
    return cycle


def _plan(cycle: SchedulingCycle, changes: RunningChanges) -> Plan:
    # 5. reasons: one for each gang that stays pending, with counts, computed when it is read
    verdicts = PendingReasons(cycle)
    return Plan(
        version=cycle.snapshot.version,
        now=cycle.now,
        admissions=tuple(Admission(start.gang.id, start.placement, start.grant) for start in cycle.started),
        verdicts=verdicts,
        preemptions=changes.preemptions,
        resizes=(*changes.shrinking, *changes.growing),
        missing=changes.missing(),
        order=verdicts.order(),
        due=_due(cycle, changes),
    )


def _due(cycle: SchedulingCycle, changes: RunningChanges) -> int | None:
    """The next time, in ms, at which time alone may change the decisions."""
    boundaries = [at for each in cycle.snapshot.reservations for at in (each.start, each.end) if at > cycle.now]
    begin = next_begin((each.gangs[0].begin for each in cycle.snapshot.classes), cycle.now)
    return min([*boundaries, *(at for at in (begin, changes.due) if at is not None)], default=None)
