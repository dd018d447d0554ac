"""Changes that one plan makes to running gangs: preemptions, shrinking, and growth into idle capacity.

The searches in `core.preemption` are imported when there is a gang to change: a `windlass run` alone on its machine
never needs them, and they take a twentieth of its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from windlass.core.cycle.attempt_budget import AttemptBudget
from windlass.core.cycle.blocking_reason import verdict_of
from windlass.core.cycle.scheduling_cycle import SchedulingCycle
from windlass.core.ledger import Ledger
from windlass.core.model.gang import PendingGang, RunningGang, demands_as_placed, requeue_gang, shape_of
from windlass.core.model.obstacle import Obstacle
from windlass.core.model.plan import Preemption, Resize
from windlass.core.model.reasons import Reason, Verdict
from windlass.core.model.snapshot import Snapshot
from windlass.core.model.status import Placement
from windlass.core.nodes.node_filters import Mask
from windlass.core.placement.empty_cluster_fit import usable_nodes

if TYPE_CHECKING:
    from windlass.core.preemption.elastic_growth import IdleCapacity
    from windlass.core.preemption.victim_search import Eviction, SearchContext
    from windlass.core.preemption.victims import VictimCandidates

_MAX_FAILED_SEARCHES, _LEAST_FAILED_SEARCHES = 32, 4
"""Maximum number of failed victim searches in one plan, and each queue's minimum share; they bound the cost of a plan.
"""
_REMOVABLE = frozenset({Obstacle.LIMIT, Obstacle.QUOTA, Obstacle.CAPACITY, Obstacle.RESERVED})
"""Obstacles that the release of other gangs may remove."""
_NOT_STARTED = "the last replicas that were added could not be started; they are added again soon"
_LACKS_ONLY_NODES = frozenset({None, Obstacle.CAPACITY, Obstacle.RESERVED, Obstacle.LEAVING})
"""Obstacles of a gang that would start if it found nodes; None: no obstacle but nodes."""


class RunningChanges:
    """Preemptions and resizes of one cycle, whose blocked gangs are passed to `make_room` one after the other."""

    def __init__(self, cycle: SchedulingCycle, dry_run: Callable[[Snapshot], SchedulingCycle] | None = None) -> None:
        """`dry_run`: schedules a snapshot without stopping any gang; None: this cycle is such a dry run."""
        self._cycle = cycle
        self._dry_run = dry_run
        self._is_enabled = cycle.snapshot.policy.preempt
        self._next_preemptible: dict[tuple[str, int], int | None] = {}
        self.growing: tuple[Resize, ...] = ()
        """Resizes of gangs that grow."""

    def make_room(self, gang: PendingGang, obstacle: Obstacle) -> bool:
        """Searches victims for a blocked gang. Returns whether it starts once they have released their nodes.

        If so, the cycle reserves its placement from that time on.
        """
        if not self.may_help or obstacle not in _REMOVABLE or self._dry_run is None:
            return False
        if not gang.preemptible and self._cycle.claims.lacks_own_quota(gang):
            return False  # no gang that could be stopped holds it
        from windlass.core.preemption.victim_search import find_victims  # noqa: PLC0415 - as the module's text says

        has_victims = self._candidates.may_have_victims(gang)
        if not (has_victims or self._candidates.releasing):
            return False
        may_search = self._searches.has_left(gang)
        found = find_victims(self._context(gang), gang) if may_search else None
        if found is None or not self._would_start(found):
            if may_search:
                self._searches.spend(gang)
            else:
                self._cycle.unsearched.add(gang.id)
            self._note_refusals(gang)
            if has_victims:
                self._note_next_preemptible(gang)
            return False
        self._cycle.block_until_released(found)
        return True

    def _would_start(self, found: Eviction) -> bool:
        """Whether this gang starts when all victims are gone, instead of a gang ahead of it or a victim.

        Preemption rights and the queue order are independent rules, so a dry run decides. If no gang ahead is
        blocked, the answer is yes.
        """
        cycle = self._cycle
        blocked = any(obstacle is not Obstacle.LEAVING for obstacle in cycle.obstacles.values())
        if not (found.preemptions or found.resizes) or not blocked:
            return True
        assert self._dry_run is not None  # noqa: S101 - a dry run preempts no gang
        ledger = Ledger.at(cycle.snapshot)
        for run in self._candidates.releasing:
            _release(ledger, run, run.resize_to)
        for eviction in (*self._evictions(), found):
            for resize in eviction.resizes:
                _release(ledger, cycle.snapshot.running[resize.job_id], resize.placement)
            for preemption in eviction.preemptions:
                ledger.add_pending(requeue_gang(cycle.snapshot.running[preemption.job_id], cycle.now))
        return any(start.gang.id == found.gang.id for start in self._dry_run(ledger.snapshot()).started)

    @cached_property
    def _searches(self) -> AttemptBudget:
        """Failed searches that are left in this plan."""
        cycle = self._cycle
        classes = (each for each in cycle.snapshot.classes if not cycle.is_gated(each.gangs[0]))
        return AttemptBudget(_MAX_FAILED_SEARCHES, classes, _LEAST_FAILED_SEARCHES)

    @cached_property
    def may_help(self) -> bool:
        """Whether any gang could be preempted, shrunk or waited for at all; a cheap test."""
        snapshot = self._cycle.snapshot
        ranks = {priority for _, priority in snapshot.running_by_priority}
        waiting = {each.gangs[0].priority for each in snapshot.classes}
        outranked = bool(ranks) and min(ranks) < max(waiting, default=0)
        return self._is_enabled and (
            outranked or bool(snapshot.elastic_or_stopping) or bool(self._cycle.usage.tree.children)
        )

    def grow(self) -> None:
        """Gives elastic gangs the capacity that no pending gang can use. Called after the last pending gang."""
        if idle := self._idle:
            from windlass.core.preemption.elastic_growth import find_growth  # noqa: PLC0415

            self.growing = find_growth(idle)

    @property
    def preemptions(self) -> tuple[Preemption, ...]:
        """Preemptions of this plan."""
        return tuple(each for eviction in self._evictions() for each in eviction.preemptions)

    @property
    def shrinking(self) -> tuple[Resize, ...]:
        """Resizes of gangs that are made smaller."""
        return tuple(each for eviction in self._evictions() for each in eviction.resizes)

    def missing(self) -> dict[str, Verdict]:
        """Verdicts on what running gangs miss of the replicas that their owners request, after this plan."""
        cycle = self._cycle
        changed = {resize.job_id for resize in (*self.growing, *self.shrinking)}
        changed |= {preemption.job_id for preemption in self.preemptions}
        short = (run for run in cycle.snapshot.elastic_or_stopping.values() if run.id not in changed)
        return {run.id: _missing_verdict(cycle, run) for run in short if any(d.grows_in_place for d in run.demands)}

    @property
    def due(self) -> int | None:
        """The next time, in ms, at which time alone may allow a preemption or a growth."""
        moments = [at for at in self._next_preemptible.values() if at is not None]
        if idle := self._idle:
            from windlass.core.preemption.elastic_growth import next_growth_at  # noqa: PLC0415

            if (at := next_growth_at(idle)) is not None:
                moments.append(at)
        return min(moments, default=None)

    def _evictions(self) -> Iterator[Eviction]:
        return iter(self._cycle.evictions.values())

    @cached_property
    def _candidates(self) -> VictimCandidates:
        from windlass.core.preemption.victims import VictimCandidates  # noqa: PLC0415

        cycle = self._cycle
        return VictimCandidates(cycle.snapshot, cycle.now, cycle.usage.copy())

    def _context(self, gang: PendingGang) -> SearchContext:
        from windlass.core.preemption.victim_search import SearchContext  # noqa: PLC0415

        cycle = self._cycle
        reservations, closed = cycle.profile.conflicts_of(gang, self._candidates.latest_release)
        return SearchContext(
            snapshot=cycle.snapshot,
            now=cycle.now,
            candidates=self._candidates,
            free=cycle.free,
            usage=cycle.usage,
            reserved_usage=cycle.claims.reserved_usage,
            reservations=[reservation for reservation in reservations if reservation.gang.id not in cycle.evictions],
            closed=closed,
            earlier=tuple(self._evictions()),
        )

    def _note_refusals(self, gang: PendingGang) -> None:
        """Records gangs that are no victims only because their eviction was refused, and the end of that state."""
        for run in self._candidates.unevictable(gang):
            self._cycle.unevictable.setdefault(gang.id, []).append(run.id)
            self._next_preemptible[run.id, run.priority] = run.unevictable_until

    def _note_next_preemptible(self, gang: PendingGang) -> None:
        """Records the time at which the next running gang may be preempted for gangs of this queue and priority."""
        key = gang.queue, gang.priority
        if key not in self._next_preemptible:
            self._next_preemptible[key] = self._candidates.next_preemptible_at(gang)

    @cached_property
    def _idle(self) -> IdleCapacity | None:
        """Idle capacity; None: no elastic gang runs, as in most plans."""
        cycle = self._cycle
        if not cycle.snapshot.elastic_or_stopping:
            return None
        from windlass.core.preemption.elastic_growth import IdleCapacity  # noqa: PLC0415

        return IdleCapacity(
            snapshot=cycle.snapshot,
            now=cycle.now,
            free=cycle.free,
            usage=cycle.usage,
            reserved_usage=cycle.claims.reserved_usage,
            reservations=cycle.profile.reservations(),
            contended=_contended_nodes(cycle),
            stopped=frozenset(release.run.id for eviction in self._evictions() for release in eviction.releases),
        )


def _missing_verdict(cycle: SchedulingCycle, run: RunningGang) -> Verdict:
    """The verdict on the replicas that a running gang misses, as on a gang of their own."""
    from windlass.core.placement.elastic_resizing import fixed_size_reason, missing_replicas  # noqa: PLC0415 - as above

    if why := fixed_size_reason(demand for demand in run.demands if demand.grows_in_place):
        return Verdict(Reason.TOPOLOGY_PLACEMENT_FAILED, why)
    if run.grow_after is not None and run.grow_after > cycle.now:
        return Verdict(Reason.ON_HOLD, _NOT_STARTED)
    demands = missing_replicas(run)
    gang = replace(requeue_gang(run, cycle.now), demands=demands, shape=shape_of(run.queue, demands))
    return verdict_of(cycle, gang)


def _release(ledger: Ledger, run: RunningGang, placement: Placement | None) -> None:
    """Releases in the ledger everything that the gang holds except this placement; None: everything."""
    ledger.release(run.id)
    if placement is not None:
        demands = demands_as_placed(run.demands, placement)
        ledger.hold(replace(run, placement=placement, demands=demands, resize_to=None))


def _contended_nodes(cycle: SchedulingCycle) -> Mask | None:
    """bool[N]: nodes of all pending gangs that lack nodes and nothing else."""
    snapshot, started = cycle.snapshot, {start.gang.id for start in cycle.started}
    mask = np.zeros(len(snapshot.table.nodes), dtype=np.bool_)
    for each in snapshot.classes:
        gang = next((gang for gang in each.gangs if gang.id not in started), None)
        if gang is None or cycle.is_gated(gang):
            continue
        # the reserved usage includes the claim of a blocked gang, so its recorded obstacle is used
        obstacle = cycle.obstacles[gang.id] if gang.id in cycle.obstacles else cycle.find_obstacle(gang)
        if obstacle in _LACKS_ONLY_NODES:
            mask |= usable_nodes(snapshot.table, gang.demands)
    return mask if mask.any() else None
