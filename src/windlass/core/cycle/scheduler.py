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

_MOST_TRIED = 1_000
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
        return plan, verdicts.trial
    trial = SchedulingCycle(snapshot, now, watched)
    changes = RunningChanges(trial, dry_run=lambda later: _run(SchedulingCycle(later, now)))
    return _plan(_run(trial, changes), changes), trial


def _run(trial: SchedulingCycle, changes: RunningChanges | None = None) -> SchedulingCycle:
    snapshot, now = trial.snapshot, trial.now
    changes = changes or RunningChanges(trial)
    # 1. gates: lines that wait out a backoff or another job are not in the contest
    lines = [line for line in snapshot.lines if not is_gated(line.gangs[0], snapshot.arrays, now)]
    # 2. by turn: they start, or wait, and those who wait first hold reservations that nobody may delay
    gaps = _by_turn(trial, changes, lines)
    # 3. into the gaps between the reservations: whoever delays none of them
    _into_gaps(trial, changes, gaps)
    # 4. to elastic gangs, what nobody else can use
    changes.grow()
    return trial


def _by_turn(trial: SchedulingCycle, changes: RunningChanges, lines: list[EquivalenceClass]) -> list[EquivalenceClass]:
    """Returns the lines of which somebody may still fill a gap."""
    gaps: list[EquivalenceClass] = []
    asked_by_turn = changes.may_help and (trial.has_limits or not has_backfill_order(trial.snapshot.policy))
    contest = QueueOrder(lines, trial.shares_that_count, classes=trial.classes)
    firsts = [line.gangs[0] for line in lines]
    for gang in contest:
        obstacle = trial.limit(gang)
        if obstacle is None and not trial.timetable.open_to(gang) and not asked_by_turn:
            # as many wait for the same nodes as may hold reservations: a gap, at best, or what others leave for it
            gaps.append(contest.line)
            contest.drop()
            continue
        obstacle = obstacle or trial.attempt(gang)
        # others are made smaller or stopped, whole gangs, the cheapest that suffice
        if obstacle is None or changes.make_room(gang, obstacle):
            continue
        if obstacle in LACKS_NODES and not trial.timetable.open_to(gang):
            gaps.append(contest.line)
            contest.drop()
            continue
        trial.wait(gang, obstacle)
        if trial.timetable.is_shut:
            return []  # nobody behind him can start
        if not (trial.has_limits or asked_by_turn) and not any(map(trial.timetable.open_to, firsts)):
            return lines  # whoever comes behind him can do no more than fill a gap
        if obstacle not in LACKS_NODES or not trial.timetable.has_gaps:
            contest.drop()
    return gaps


def _into_gaps(trial: SchedulingCycle, changes: RunningChanges, lines: list[EquivalenceClass]) -> None:
    if not changes.may_help:
        lines = [line for line in lines if not trial.is_too_large(line.gangs[0])]
    if not lines:
        return
    contest, failed = QueueOrder(lines, trial.shares_that_count, classes=trial.classes, fill=True), 0
    for gang in contest:
        if gang.id in trial.settled:
            continue
        obstacle = trial.limit(gang) or trial.attempt(gang)
        if obstacle is None or changes.make_room(gang, obstacle):
            continue
        longest = trial.timetable.shorter(gang) if obstacle is Obstacle.PROMISED else None
        if longest is None:
            contest.drop()
        else:
            contest.only_shorter(longest)
        failed += 1
        if failed == _MOST_TRIED:
            return


def _plan(trial: SchedulingCycle, changes: RunningChanges) -> Plan:
    # 5. one reason, with counts, for everything that stays; worked out when it is read
    verdicts = PendingReasons(trial)
    return Plan(
        version=trial.snapshot.version,
        now=trial.now,
        admissions=tuple(Admission(start.gang.id, start.placement, start.grant) for start in trial.started),
        verdicts=verdicts,
        preemptions=changes.preemptions,
        resizes=(*changes.shrinking, *changes.growing),
        order=verdicts.order(),
        due=_due(trial, changes),
    )


def _due(trial: SchedulingCycle, changes: RunningChanges) -> int | None:
    """When time alone may change what was decided."""
    turns = [at for each in trial.snapshot.reservations for at in (each.start, each.end) if at > trial.now]
    due = changes.due
    return min(turns if due is None else [*turns, due], default=None)
