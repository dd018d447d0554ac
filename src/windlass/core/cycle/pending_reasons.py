"""The reason of each gang that stays pending, computed when it is read: in most cycles none is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from windlass.core.cycle.blocking_reason import (
    eviction_verdict,
    verdict_of,
    with_refused_evictions,
    with_search_put_off,
)
from windlass.core.cycle.scheduling_cycle import SchedulingCycle
from windlass.core.model.gang import EquivalenceClass
from windlass.core.model.reasons import PERMANENT_REASONS, StartCertainty, Verdict
from windlass.core.queues.queue_order import LazyOrder, iterate_by_fair_share

if TYPE_CHECKING:
    from windlass.core.cycle.start_estimation import StartEstimate


class PendingReasons(Mapping[str, Verdict]):
    """Verdicts by id of every gang that the cycle left pending, in queue order."""

    def __init__(self, cycle: SchedulingCycle) -> None:
        self._cycle = cycle
        self._pending = _PendingClasses(cycle)
        self._order = LazyOrder(self._pending.open_order)
        self._verdicts: dict[int, Verdict] = {}
        """By number of the class: the verdict that all of its gangs share, without the expected start."""

    def order(self) -> LazyOrder:
        """Ids of the gangs whose gates are open, in queue order."""
        return self._order

    def __getitem__(self, job_id: str) -> Verdict:
        number = self._class_numbers[job_id]
        if number not in self._verdicts:
            self._verdicts[number] = verdict_of(self._cycle, self._pending.classes[number].gangs[0])
        going = self._cycle.evictions.get(job_id)
        verdict = self._verdicts[number] if going is None else eviction_verdict(going)
        if job_id in self._cycle.unevictable:
            verdict = with_refused_evictions(verdict, self._cycle.unevictable[job_id])
        if job_id in self._cycle.unsearched:
            verdict = with_search_put_off(verdict)
        expected = None if verdict.reason in PERMANENT_REASONS else self._expectations.get(job_id)
        if expected is None or (expected.certainty is StartCertainty.EXPECTED and expected.at <= self._cycle.now):
            return verdict  # by total amounts it has room now, node by node it has none: no estimate
        if verdict.eta is not None and expected.at <= verdict.eta:
            return verdict  # it has room at its begin time
        return replace(verdict, eta=expected.at, certainty=expected.certainty)

    def __iter__(self) -> Iterator[str]:
        nobody_is_gated = len(self._order) == len(self)
        return iter(self._order) if nobody_is_gated else self._pending.in_turn(self._pending.classes)

    def __len__(self) -> int:
        return len(self._class_numbers)

    @cached_property
    def _class_numbers(self) -> dict[str, int]:
        """By id: the number of the gang's class."""
        return {gang.id: number for number, each in enumerate(self._pending.classes) for gang in each.gangs}

    @cached_property
    def _expectations(self) -> dict[str, StartEstimate]:
        """Expected starts: of gangs whose gates are open, in queue order, then of others, the first to open first."""
        from windlass.core.cycle.start_estimation import estimate_starts, start_bounds  # noqa: PLC0415 - as verdicts

        gangs = {gang.id: gang for each in self._pending.classes for gang in each.gangs}
        in_turn = [gangs.pop(job_id) for job_id in self._order]
        gated = sorted(gangs.values(), key=lambda gang: (gang.earliest_start, self._cycle.sort_key(gang)))
        return estimate_starts(self._cycle, [*in_turn, *gated], start_bounds(self._cycle))


class _PendingClasses:
    """Classes of the gangs that a cycle left pending.

    It does not refer to the reasons, so that no plan is in a reference cycle: its arrays are freed with its last user.
    """

    def __init__(self, cycle: SchedulingCycle) -> None:
        self._cycle = cycle

    @cached_property
    def classes(self) -> tuple[EquivalenceClass, ...]:
        """The classes without the gangs that this cycle starts."""
        started = {start.gang.id for start in self._cycle.started}
        classes = (_left_of(each, started) for each in self._cycle.snapshot.classes)
        return tuple(each for each in classes if each.gangs)

    def open_order(self) -> Iterator[str]:
        """Ids of the gangs whose gates are open, in queue order."""
        return self.in_turn([each for each in self.classes if not self._cycle.is_gated(each.gangs[0])])

    def in_turn(self, classes: Sequence[EquivalenceClass]) -> Iterator[str]:
        """Ids of the gangs of some classes, in queue order."""
        cycle = self._cycle
        if cycle.fair_shares and len({each.gangs[0].queue for each in classes}) > 1:
            return iterate_by_fair_share(classes, cycle.shares, priority_first=cycle.priority_first)
        gangs = sorted((key, gang.id) for each in classes for gang, key in zip(each.gangs, each.sort_keys, strict=True))
        return (job_id for _, job_id in gangs)


def _left_of(eq_class: EquivalenceClass, started: set[str]) -> EquivalenceClass:
    """The class without the started gangs, which are mostly its first ones. Sorted by sort key alone."""
    if started.isdisjoint([gang.id for gang in eq_class.gangs]):
        return eq_class
    left = [(g, key) for g, key in zip(eq_class.gangs, eq_class.sort_keys, strict=True) if g.id not in started]
    gangs, keys = tuple(gang for gang, _ in left), tuple(key for _, key in left)
    return EquivalenceClass(gangs, keys, gangs, keys)
