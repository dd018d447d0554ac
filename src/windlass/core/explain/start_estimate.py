"""Estimate of a gang's start if every gang uses its whole walltime: the scheduler, run ahead of time."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from windlass.core.cycle.scheduler import schedule
from windlass.core.ledger import Ledger
from windlass.core.model.gang import PendingGang, RunningGang, demands_as_placed, requeue_gang, start_gang
from windlass.core.model.plan import Plan
from windlass.core.model.snapshot import Snapshot
from windlass.core.model.status import Placement

_MAX_CLASSES = 20_000
"""Maximum number of classes scheduled before the start counts as unknown: about a second."""


def expected_start(snapshot: Snapshot, gang: PendingGang, now: int) -> int | None:
    """Returns the expected start in ms if no gang arrives, or None.

    None: it depends on a gang without a walltime, or needs too much work to compute.
    It is an expectation, not a reservation: if a gang ends early, another one may overtake. Growth of elastic gangs is
    ignored.
    """
    if gang.waits_for or gang.hold:
        return None
    return next((at for at, plan in _future_plans(snapshot, now) if gang.id in _admitted(plan)), None)


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """A start that the lookahead has made: at `at` (ms), on `placement`."""

    job_id: str
    at: int
    placement: Placement


def expected_starts(snapshot: Snapshot, now: int, most: int) -> list[ExpectedStart]:
    """Returns the first `most` starts of waiting gangs that `expected_start` is about, in order of time."""
    starts = (
        ExpectedStart(admission.job_id, at, admission.placement)
        for at, plan in _future_plans(snapshot, now)
        for admission in plan.admissions
    )
    return list(islice(starts, most))


def _future_plans(snapshot: Snapshot, now: int) -> Iterator[tuple[int, Plan]]:
    """Yields the plan of each time at which anything changes, until nothing does or the work is too much."""
    lookahead = _Lookahead(snapshot, now)
    for _ in range(1 + _MAX_CLASSES // (1 + len(snapshot.classes))):
        # 1. starts and stops at this time
        lookahead.ledger.open_begin_times(lookahead.now)
        plan = schedule(lookahead.ledger.snapshot(), lookahead.now)
        yield lookahead.now, plan
        lookahead.carry_out(plan)
        # 2. on to the next time at which anything changes
        if not lookahead.advance(plan.due):
            return


def _admitted(plan: Plan) -> set[str]:
    return {admission.job_id for admission in plan.admissions}


class _Lookahead:
    """A simulated cluster without new gangs, in which every gang runs for its whole walltime."""

    def __init__(self, snapshot: Snapshot, now: int) -> None:
        self.ledger = Ledger.at(snapshot)
        self.now = now
        self._waiting = {gang.id: gang for each in snapshot.classes for gang in each.gangs}
        self._running = dict(snapshot.running)
        self._stopped: dict[str, RunningGang] = {}
        """Running gangs that wait again when they have stopped, as they ran."""
        times = {at for each in snapshot.classes for at in (each.gangs[0].not_before, each.gangs[0].begin) if at}
        times |= {at for each in snapshot.reservations for at in (each.start, each.end)}
        self._boundaries = sorted(at for at in times if at > now)
        self._ends = [(max(run.ends_by, now), run.id) for run in snapshot.running.values() if run.ends_by is not None]
        self._ends += [
            (run.release_time(now), run.id)
            for run in snapshot.elastic_or_stopping.values()
            if run.resize_to is not None
        ]
        heapq.heapify(self._ends)

    def carry_out(self, plan: Plan) -> None:
        """Starts the gangs that the plan admits, and begins its stops and shrinks."""
        for admission in plan.admissions:
            run = start_gang(self._waiting.pop(admission.job_id), admission.placement, self.now)
            self._hold(run, run.ends_by)
        for preemption in plan.preemptions:
            run = self._running[preemption.job_id]
            self._stopped[run.id] = run
            gone = self.now + run.grace
            leaving = replace(run, stopping=True, ends_by=gone if run.ends_by is None else min(gone, run.ends_by))
            self._hold(leaving, leaving.ends_by)
        for resize in plan.resizes:
            run = self._running[resize.job_id]
            if _members(resize.placement) < _members(run.placement):
                self._hold(replace(run, resize_to=resize.placement, resized_at=self.now), self.now + run.grace)

    def advance(self, due: int | None) -> bool:
        """Advances to the next time at which anything changes; False if there is none."""
        moments = [at for at in self._boundaries if at > self.now][:1] + [at for at, _ in self._ends[:1]]
        moments += [] if due is None else [due]
        if not moments:
            return False
        self.now = min(moments)
        while self._ends and self._ends[0][0] <= self.now:
            _, job_id = heapq.heappop(self._ends)
            if job_id in self._running:
                self._end(self._running[job_id])
        return True

    def _end(self, run: RunningGang) -> None:
        """Ends a gang, or its shrink; nothing, if the end was postponed when it was stopped and started again."""
        if run.ends_by is not None and run.ends_by <= self.now:
            del self._running[run.id]
            self.ledger.release(run.id)
            if run.id in self._stopped:
                again = requeue_gang(self._stopped.pop(run.id), self.now)
                self._waiting[run.id] = again
                self.ledger.add_pending(again)
        elif run.resize_to is not None and run.release_time(self.now) <= self.now:
            smaller = replace(
                run, placement=run.resize_to, demands=demands_as_placed(run.demands, run.resize_to), resize_to=None
            )
            self._hold(smaller, None)

    def _hold(self, run: RunningGang, until: int | None) -> None:
        self._running[run.id] = run
        self.ledger.hold(run)
        if until is not None:
            heapq.heappush(self._ends, (until, run.id))


def _members(placement: Placement) -> int:
    return sum(map(len, placement.nodes.values()))
