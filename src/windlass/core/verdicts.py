"""Why each gang that stays waits: worked out when somebody looks, because most turns nobody does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from windlass.core import gates
from windlass.core.gang import Pending
from windlass.core.ordering import Order, in_fair_turn
from windlass.core.reasons import Verdict
from windlass.core.trial import Trial
from windlass.core.verdict import eta_of, verdict_of


class Verdicts(Mapping[str, Verdict]):
    """By id of every gang that the trial left waiting, by turn."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._answers: dict[int, tuple[Verdict, Verdict]] = {}
        """By number of the group: the verdict of its first gang, and that of the rest."""

    def order(self) -> Order:
        """The gangs whose gates are open, by their turn."""
        return Order(lambda: self._in_turn(self._open_groups()))

    def __getitem__(self, job_id: str) -> Verdict:
        number, place = self._places[job_id]
        if number not in self._answers:
            self._answers[number] = self._answer(self._groups[number][0])
        return self._answers[number][min(place, 1)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._in_turn(self._groups))

    def __len__(self) -> int:
        return len(self._places)

    def _answer(self, first: Pending) -> tuple[Verdict, Verdict]:
        verdict = verdict_of(self._trial, first)
        eta = eta_of(self._trial, first)
        return (verdict if eta is None else replace(verdict, eta=eta)), verdict

    def _in_turn(self, groups: Sequence[Sequence[Pending]]) -> Iterator[str]:
        trial = self._trial
        if trial.shares_that_count and len({group[0].queue for group in groups}) > 1:
            return in_fair_turn(groups, trial.turn, trial.shares, classes=trial.classes)
        return (gang.id for gang in sorted((gang for group in groups for gang in group), key=trial.turn))

    def _open_groups(self) -> list[Sequence[Pending]]:
        trial = self._trial
        return [group for group in self._groups if not gates.shut(group[0], trial.arrays, trial.now)]

    @cached_property
    def _groups(self) -> tuple[Sequence[Pending], ...]:
        """The lines without what has started, which is always their first gangs."""
        started = {start.gang.id for start in self._trial.started}
        groups = (_left_of(line.gangs, started) for line in self._trial.snapshot.lines)
        return tuple(gangs for gangs in groups if gangs)

    @cached_property
    def _places(self) -> dict[str, tuple[int, int]]:
        return {gang.id: (n, place) for n, group in enumerate(self._groups) for place, gang in enumerate(group)}


def _left_of(gangs: Sequence[Pending], started: set[str]) -> Sequence[Pending]:
    first = next((place for place, gang in enumerate(gangs) if gang.id not in started), len(gangs))
    return gangs[first:] if first else gangs
