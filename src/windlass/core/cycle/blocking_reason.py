"""The reason why one gang stays pending: the first that holds, in the order of `reasons.Reason`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from windlass.core.cycle.scheduling_cycle import SchedulingCycle
from windlass.core.model.gang import PendingGang, class_key_of, minimum_demands
from windlass.core.model.obstacle import Obstacle
from windlass.core.model.reasons import Reason, Verdict
from windlass.core.placement.empty_cluster_fit import fits_empty, usable_nodes
from windlass.core.placement.shortage import capacity_verdict, find_shortage, impossible_verdict
from windlass.core.queues import admission_gates, quota
from windlass.core.queues.limits import find_limit

if TYPE_CHECKING:
    from windlass.core.preemption.victim_search import Eviction

_LATER = Verdict(Reason.PENDING_EVALUATION, "would fit now; looked at again at the next change")
_NAMED = 3
"""Maximum number of gangs that a message names; it counts the others."""

_UNTRIED = "not tried for the gaps yet: too many other gangs of its queue and user were tried and found none"
_UNSEARCHED = "; no gang to preempt was searched for it: too many searches for its queue have failed in this plan"


def verdict_of(cycle: SchedulingCycle, gang: PendingGang) -> Verdict:
    """Judges a gang that the cycle left pending, by what is free once the plan's admissions hold their nodes."""
    table, queue = cycle.snapshot.table, quota.queue_named(cycle.snapshot.queues, gang.queue)
    if answer := admission_gates.gate_verdict(gang, cycle.arrays, cycle.snapshot.uncounted_exclusives, cycle.now):
        return answer
    if queue is None:
        return Verdict(Reason.MISCONFIGURED, f"there is no queue {gang.queue}; it waits until there is one")
    demands = minimum_demands(gang.demands)
    if not fits_empty(table, gang) and (short := find_shortage(cycle.total_capacities, table, demands)):
        return impossible_verdict(short)
    firm = None if gang.preemptible else cycle.claims.firm
    if answer := quota.quota_verdict(cycle.usage, gang.queue, gang.minimum_request, firm) or find_limit(
        cycle.usage, gang.queue, gang.user, gang.minimum_request
    ):
        return answer
    if short := find_shortage(cycle.free_capacities, table, demands):
        return capacity_verdict(short)
    return _in_the_way(cycle, gang)


def _in_the_way(cycle: SchedulingCycle, gang: PendingGang) -> Verdict:
    """The verdict for a gang that would fit if no other gang or reservation came first."""
    if class_key_of(gang) in cycle.untried:
        return Verdict(Reason.PENDING_EVALUATION, _UNTRIED)
    return _goes_first(cycle, gang) or _reserved(cycle, gang) or _LATER


def _goes_first(cycle: SchedulingCycle, gang: PendingGang) -> Verdict | None:
    """The verdict for a gang behind the first one ahead that has a claim on the queue's quota, or else on nodes."""
    if cycle.obstacles.get(gang.id) is Obstacle.QUOTA or cycle.find_obstacle(gang) is Obstacle.QUOTA:
        return _first_claim(cycle, gang)
    if first := cycle.profile.first_conflict(gang):
        return _after(first, "")
    mine = usable_nodes(cycle.snapshot.table, gang.demands)
    holds = (hold.gang for hold in cycle.reserved_nodes if hold.gang.id != gang.id and hold.mask[mine].any())
    return next((_after(first, "") for first in holds), None)


def _first_claim(cycle: SchedulingCycle, gang: PendingGang) -> Verdict | None:
    """The verdict for a gang behind the first claim on quota: in its queue or above it, or else in the same tree."""
    path = cycle.usage.tree.path
    mine = path.get(gang.queue, ())
    relatives = (queue for queue in cycle.claims.first if path.get(queue, ())[-1:] == mine[-1:])
    claims = ((cycle.claims.first.get(queue), queue) for queue in (*mine, *relatives))
    others = ((first, queue) for first, queue in claims if first is not None and first.id != gang.id)
    return next((_after(first, f": quota of {queue} is kept for it") for first, queue in others), None)


def eviction_verdict(eviction: Eviction) -> Verdict:
    """The verdict for a gang that starts as soon as other gangs have released their nodes."""
    gone = [each.job_id for each in eviction.preemptions] + [each.job_id for each in eviction.resizes]
    more = f" and {len(gone) - _NAMED} more" if len(gone) > _NAMED else ""
    whose = f", by {', '.join(gone[:_NAMED])}{more}" if gone else ""
    return Verdict(Reason.WAITING_FOR_PREEMPTED, f"starts when its nodes have been given back{whose}")


def with_refused_evictions(verdict: Verdict, refused: Sequence[str]) -> Verdict:
    """The verdict, naming the gangs that would be preempted if their eviction had not been refused."""
    more = f" and {len(refused) - _NAMED} more" if len(refused) > _NAMED else ""
    text = f"; not preempted for it, as their eviction was refused: {', '.join(refused[:_NAMED])}{more}"
    return replace(verdict, message=verdict.message + text)


def with_search_put_off(verdict: Verdict) -> Verdict:
    """The verdict of a gang for which no victims were searched."""
    return replace(verdict, message=verdict.message + _UNSEARCHED)


def _reserved(cycle: SchedulingCycle, gang: PendingGang) -> Verdict | None:
    """The verdict for a gang that would still run when an advance reservation of nodes that it could use begins."""
    table, mine = cycle.snapshot.table, usable_nodes(cycle.snapshot.table, gang.demands)
    ends = None if gang.walltime is None else cycle.now + gang.walltime
    for kept in cycle.snapshot.reservations:
        if not kept.keeps_out(gang.queue, gang.user, cycle.now, ends):
            continue
        nodes = [name for name in kept.nodes if name in table.row and mine[table.row[name]]]
        if nodes:
            until = "has" if kept.start <= cycle.now else "will have"
            message = f"would fit now, but reservation {kept.name} {until} {nodes[0]}"
            more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
            return Verdict(Reason.WAITING_FOR_QUOTA, message + more)
    return None


def _after(first: PendingGang, claim: str) -> Verdict:
    return Verdict(Reason.WAITING_FOR_QUOTA, f"would fit now, but {first.id} goes first{claim}", behind=first.id)
