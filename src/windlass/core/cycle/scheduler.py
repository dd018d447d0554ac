"""Who starts now, and where. The whole policy on one screen; each step has its file."""

from __future__ import annotations

from windlass.core.cycle.pending_reasons import PendingReasons
from windlass.core.cycle.preemptive_sorting import schedule_preemptively
from windlass.core.cycle.running_changes import RunningChanges
from windlass.core.cycle.scheduling_cycle import SchedulingCycle
from windlass.core.model.gang import EquivalenceClass
from windlass.core.model.obstacle import LACKS_NODES, Obstacle
from windlass.core.model.plan import Admission, Plan
from windlass.core.model.snapshot import Snapshot
from windlass.core.queues.admission_gates import is_gated
from windlass.core.queues.orders.registry import has_backfill_order, order_of
from windlass.core.queues.queue_order import QueueOrder

_MAX_FAILED_CLASSES = 1_000
"""Lines that are tried in vain for the gaps in one plan; so that a plan's cost is bounded (Slurm's bf_max_job_test)."""


def schedule(snapshot: Snapshot, now: int) -> Plan:
    """Decide which of the waiting gangs start now, each whole, and why the others wait.

    Pure: equal snapshots and times give equal plans. `now` in ms.
    """
    if order_of(snapshot.policy).preemptive:
        return schedule_preemptively(snapshot, now)[0]
    return schedule_with_cycle(snapshot, now)[0]


def schedule_with_cycle(snapshot: Snapshot, now: int, watched: str = "") -> tuple[Plan, SchedulingCycle]:
    """The plan, and the cycle as it ends; `watched` is the id of a gang whose view of the nodes the cycle keeps."""
    if order_of(snapshot.policy).preemptive:
        plan, verdicts = schedule_preemptively(snapshot, now)
        return plan, verdicts.cycle
    cycle = SchedulingCycle(snapshot, now, watched)
    changes = RunningChanges(cycle, dry_run=lambda later: _run(SchedulingCycle(later, now)))
    return _plan(_run(cycle, changes), changes), cycle


def _run(cycle: SchedulingCycle, changes: RunningChanges | None = None) -> SchedulingCycle:
    snapshot, now = cycle.snapshot, cycle.now
    changes = changes or RunningChanges(cycle)
    # 1. gates: classes that wait out a backoff or another job are not in the queue_order
    classes = [each for each in snapshot.classes if not is_gated(each.gangs[0], snapshot.arrays, now)]
    # 2. by turn: they start, or wait, and those who wait first hold reservations that nobody may delay
    gaps = _start_by_turn(cycle, changes, classes)
    # 3. into the gaps between the reservations: whoever delays none of them
    _backfill(cycle, changes, gaps)
    # 4. to elastic gangs, what nobody else can use
    changes.grow()
    return cycle


def _start_by_turn(
    cycle: SchedulingCycle, changes: RunningChanges, classes: list[EquivalenceClass]
) -> list[EquivalenceClass]:
    """Returns the classes of which somebody may still fill a gap."""
    gaps: list[EquivalenceClass] = []
    searches_by_turn = changes.may_help and (cycle.has_limits or not has_backfill_order(cycle.snapshot.policy))
    queue_order = QueueOrder(classes, cycle.fair_shares, priority_first=cycle.priority_first)
    firsts = [each.gangs[0] for each in classes]
    for gang in queue_order:
        obstacle = cycle.find_obstacle(gang)
        if obstacle is None and not cycle.profile.can_reserve(gang) and not searches_by_turn:
            # as many wait for the same nodes as may hold reservations: a gap, at best, or what others leave for it
            gaps.append(queue_order.eq_class)
            queue_order.drop()
            continue
        obstacle = obstacle or cycle.try_to_start(gang)
        # others are made smaller or stopped, whole gangs, the cheapest that suffice
        if obstacle is None or changes.make_room(gang, obstacle):
            continue
        if obstacle in LACKS_NODES and not cycle.profile.can_reserve(gang):
            gaps.append(queue_order.eq_class)
            queue_order.drop()
            continue
        cycle.block(gang, obstacle)
        if cycle.profile.is_closed:
            return []  # nobody behind him can start
        if not (cycle.has_limits or searches_by_turn) and not any(map(cycle.profile.can_reserve, firsts)):
            return classes  # whoever comes behind him can do no more than fill a gap
        if obstacle not in LACKS_NODES or not cycle.profile.allows_backfill:
            queue_order.drop()
    return gaps


def _backfill(cycle: SchedulingCycle, changes: RunningChanges, classes: list[EquivalenceClass]) -> None:
    if not changes.may_help:
        classes = [each for each in classes if not cycle.exceeds_every_node(each.gangs[0])]
    if not classes:
        return
    queue_order, failed = QueueOrder(classes, cycle.fair_shares, priority_first=cycle.priority_first, backfill=True), 0
    for gang in queue_order:
        if gang.id in cycle.decided:
            continue
        obstacle = cycle.find_obstacle(gang) or cycle.try_to_start(gang)
        if obstacle is None or changes.make_room(gang, obstacle):
            continue
        longest = cycle.profile.next_shorter_walltime(gang) if obstacle is Obstacle.RESERVED else None
        if longest is None:
            queue_order.drop()
        else:
            queue_order.only_shorter(longest)
        failed += 1
        if failed == _MAX_FAILED_CLASSES:
            return


def _plan(cycle: SchedulingCycle, changes: RunningChanges) -> Plan:
    # 5. one reason, with counts, for everything that stays; worked out when it is read
    verdicts = PendingReasons(cycle)
    return Plan(
        version=cycle.snapshot.version,
        now=cycle.now,
        admissions=tuple(Admission(start.gang.id, start.placement, start.grant) for start in cycle.started),
        verdicts=verdicts,
        preemptions=changes.preemptions,
        resizes=(*changes.shrinking, *changes.growing),
        order=verdicts.order(),
        due=_due(cycle, changes),
    )


def _due(cycle: SchedulingCycle, changes: RunningChanges) -> int | None:
    """When time alone may change what was decided."""
    turns = [at for each in cycle.snapshot.reservations for at in (each.start, each.end) if at > cycle.now]
    due = changes.due
    return min(turns if due is None else [*turns, due], default=None)
