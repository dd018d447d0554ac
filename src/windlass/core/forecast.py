"""When enough will be free for the gang that is next, if everything that runs uses its walltime in full."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from windlass.core.booking import parts
from windlass.core.gang import Demand, Pending
from windlass.core.placement import fits
from windlass.core.snapshot import Amounts
from windlass.core.status import Placement
from windlass.core.trial import Trial


@dataclass(frozen=True, slots=True, eq=False)
class Releases:
    """What walltimes will free, by time: at `at[i]`, `amounts[i]` (int64[R]) on row `rows[i]`."""

    at: tuple[int, ...]
    rows: tuple[int, ...]
    amounts: Amounts

    def applied(self, free: Amounts, until: int) -> Amounts:
        """`free` after the first `until` releases."""
        later = free.copy(order="F")
        np.add.at(later, list(self.rows[:until]), self.amounts[:until])
        return later


def releases(trial: Trial) -> Releases:
    """Of the gangs that run and of those the plan starts; those without a walltime never end."""
    table = trial.snapshot.table
    ends = ((at, parts(table, demands, placement)) for at, demands, placement in _ends(trial))
    found = sorted((at, row, amounts.tolist()) for at, gang in ends for row, amounts in gang)
    amounts = np.array([entry[2] for entry in found], dtype=np.int64).reshape(len(found), len(table.axis))
    return Releases(tuple(entry[0] for entry in found), tuple(entry[1] for entry in found), amounts)


def _ends(trial: Trial) -> Iterator[tuple[int, tuple[Demand, ...], Placement]]:
    for gang in trial.snapshot.running.values():
        if gang.ends_by is not None:
            yield max(gang.ends_by, trial.now), gang.demands, gang.placement
    for waiting, placement in trial.started:
        if waiting.walltime is not None:
            yield trial.now + waiting.walltime, waiting.demands, placement


def enough_free_at(trial: Trial, ahead: Releases, gang: Pending) -> int | None:
    """The first moment, in ms, at which the releases let the gang in; None if they never do."""
    table = trial.snapshot.table
    moments = sorted(set(ahead.at))

    def lets_in(moment: int) -> bool:
        until = bisect_left(ahead.at, moment + 1)
        return fits(ahead.applied(trial.free, until), table, gang.demands)

    first = bisect_left(moments, 1, key=lets_in)
    return moments[first] if first < len(moments) else None
