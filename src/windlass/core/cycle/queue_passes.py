"""Two passes over the queues: starts gangs by turn, with reservations for blocked ones, then backfills the gaps.

A gap is capacity that is free until a reservation starts. The turn of a gang is its place in the queue order.
"""

from __future__ import annotations

from windlass.core.cycle.attempt_budget import AttemptBudget
from windlass.core.cycle.running_changes import RunningChanges
from windlass.core.cycle.scheduling_cycle import SchedulingCycle
from windlass.core.model.gang import EquivalenceClass, class_key_of
from windlass.core.model.obstacle import LACKS_NODES, Obstacle
from windlass.core.queues.orders.registry import has_backfill_order
from windlass.core.queues.queue_order import QueueOrder

_MAX_FAILED_CLASSES = 1_000
"""Maximum number of failed attempts to backfill in one plan, to bound its cost; as Slurm's bf_max_job_test. Queues and
users share it (`attempt_budget`), as by bf_max_job_user.
"""


def start_by_turn(
    cycle: SchedulingCycle, changes: RunningChanges, classes: list[EquivalenceClass]
) -> list[EquivalenceClass]:
    """Starts or blocks gangs in queue order. Returns the classes that may still fill a gap."""
    gaps: list[EquivalenceClass] = []
    searches_by_turn = changes.may_help and (cycle.has_limits or not has_backfill_order(cycle.snapshot.policy))
    queue_order = QueueOrder(classes, cycle.fair_shares, priority_first=cycle.priority_first)
    firsts = [each.gangs[0] for each in classes]
    for gang in queue_order:
        obstacle = cycle.find_obstacle(gang)
        if obstacle is None and not cycle.profile.contention.can_reserve(gang) and not searches_by_turn:
            # the limit on reservations for its nodes is reached: it can fill a gap at most
            gaps.append(queue_order.eq_class)
            queue_order.drop()
            continue
        obstacle = obstacle or cycle.try_to_start(gang)
        # shrink or preempt other gangs, whole ones: the cheapest set that suffices
        if obstacle is None or changes.make_room(gang, obstacle):
            continue
        if obstacle in LACKS_NODES and not cycle.profile.contention.can_reserve(gang):
            gaps.append(queue_order.eq_class)
            queue_order.drop()
            continue
        cycle.block(gang, obstacle)
        if cycle.profile.contention.is_closed:
            return []  # no later gang can start
        if not (cycle.has_limits or searches_by_turn) and not any(map(cycle.profile.contention.can_reserve, firsts)):
            return classes  # later gangs can fill gaps at most
        if obstacle not in LACKS_NODES or not cycle.profile.contention.allows_backfill:
            queue_order.drop()
    return gaps


def backfill_gaps(cycle: SchedulingCycle, changes: RunningChanges, classes: list[EquivalenceClass]) -> None:
    """Starts gangs that delay no reservation, in the order of backfilling."""
    if not changes.may_help:
        classes = [each for each in classes if not cycle.room_bounds.exceeds_every_node(each.gangs[0])]
    if not classes:
        return
    queue_order = QueueOrder(classes, cycle.fair_shares, priority_first=cycle.priority_first, backfill=True)
    budget, failed = AttemptBudget(_MAX_FAILED_CLASSES, classes), 0
    for gang in queue_order:
        if gang.id in cycle.decided:
            continue
        if not budget.has_left(gang):
            cycle.untried.add(class_key_of(gang))
            queue_order.drop()
            continue
        obstacle = cycle.find_obstacle(gang) or cycle.try_to_start(gang)
        if obstacle is None or changes.make_room(gang, obstacle):
            continue
        budget.spend(gang)
        longest = cycle.profile.next_shorter_walltime(gang) if obstacle is Obstacle.RESERVED else None
        if longest is None:
            queue_order.drop()
        else:
            queue_order.only_shorter(longest)
        failed += 1
        if failed == _MAX_FAILED_CLASSES:
            return
