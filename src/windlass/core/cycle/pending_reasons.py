"""Why each gang that stays waits: worked out when somebody looks, because most turns nobody does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from windlass.core.cycle.pending_reason import eviction_verdict, verdict_of
from windlass.core.cycle.scheduling_cycle import SchedulingCycle
from windlass.core.cycle.start_bounds import StartEstimate, estimate_starts, start_bounds
from windlass.core.model.gang import EquivalenceClass
from windlass.core.model.reasons import PERMANENT_REASONS, StartCertainty, Verdict
from windlass.core.queues import admission_gates
from windlass.core.queues.queue_order import LazyOrder, iterate_by_fair_share


class PendingReasons(Mapping[str, Verdict]):
    """By id of every gang that the trial left waiting, by turn."""

    def __init__(self, trial: SchedulingCycle) -> None:
        self._trial = trial
        self._answers: dict[int, Verdict] = {}
        """By number of the line: what all of its gangs are told, but for when they start."""

    def order(self) -> LazyOrder:
        """The gangs whose gates are open, by their turn."""
        return self._order

    def __getitem__(self, job_id: str) -> Verdict:
        number = self._places[job_id]
        if number not in self._answers:
            self._answers[number] = verdict_of(self._trial, self._lines[number].gangs[0])
        going = self._trial.evictions.get(job_id)
        verdict = self._answers[number] if going is None else eviction_verdict(going)
        expected = None if verdict.reason in PERMANENT_REASONS else self._expectations.get(job_id)
        if expected is None or (expected.sure is StartCertainty.EXPECTED and expected.at <= self._trial.now):
            return verdict  # counted together it has room now, and node by node it has none: nothing is known
        return replace(verdict, eta=expected.at, sure=expected.sure)

    def __iter__(self) -> Iterator[str]:
        nobody_is_gated = len(self._order) == len(self)
        return iter(self._order) if nobody_is_gated else self._in_turn(self._lines)

    def __len__(self) -> int:
        return len(self._places)

    def _in_turn(self, lines: Sequence[EquivalenceClass]) -> Iterator[str]:
        trial = self._trial
        if trial.shares_that_count and len({line.gangs[0].queue for line in lines}) > 1:
            return iterate_by_fair_share(lines, trial.shares, classes=trial.classes)
        gangs = sorted((turn, gang.id) for line in lines for gang, turn in zip(line.gangs, line.turns, strict=True))
        return (job_id for _, job_id in gangs)

    def _open_lines(self) -> list[EquivalenceClass]:
        trial = self._trial
        return [line for line in self._lines if not admission_gates.is_gated(line.gangs[0], trial.arrays, trial.now)]

    @cached_property
    def _lines(self) -> tuple[EquivalenceClass, ...]:
        """The lines without what has started."""
        started = {start.gang.id for start in self._trial.started}
        lines = (_left_of(line, started) for line in self._trial.snapshot.lines)
        return tuple(line for line in lines if line.gangs)

    @cached_property
    def _places(self) -> dict[str, int]:
        """By id: the number of the line."""
        return {gang.id: number for number, line in enumerate(self._lines) for gang in line.gangs}

    @cached_property
    def _order(self) -> LazyOrder:
        return LazyOrder(lambda: self._in_turn(self._open_lines()))

    @cached_property
    def _expectations(self) -> dict[str, StartEstimate]:
        """Of the gangs whose gates are open, in their turn, and then of the others."""
        gangs = {gang.id: gang for line in self._lines for gang in line.gangs}
        in_turn = [gangs.pop(job_id) for job_id in self._order]
        return estimate_starts(self._trial, [*in_turn, *gangs.values()], start_bounds(self._trial))


def _left_of(line: EquivalenceClass, started: set[str]) -> EquivalenceClass:
    """Those that have not; the others are mostly its first ones. In the order of turns alone."""
    if started.isdisjoint([gang.id for gang in line.gangs]):
        return line
    left = [(g, turn) for g, turn in zip(line.gangs, line.turns, strict=True) if g.id not in started]
    gangs, turns = tuple(gang for gang, _ in left), tuple(turn for _, turn in left)
    return EquivalenceClass(gangs, turns, gangs, turns)
