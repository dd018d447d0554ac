"""When enough will be free for the gang that is next, if everything that runs uses its walltime in full."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice

import numpy as np

from windlass.core.gang import Pending
from windlass.core.placement import fits
from windlass.core.snapshot import Amounts, Grant
from windlass.core.trial import Trial

_FIRST_BATCH = 8


def enough_free_at(trial: Trial, gang: Pending) -> int | None:
    """The first moment, in ms, at which enough gangs have ended to let this one in; None if they never do."""
    free, table = trial.free, trial.snapshot.table
    for batch in _batches(ends(trial)):
        given = _Given([grant for _, grant in batch])
        if fits(given.after(free, len(batch)), table, gang.demands):
            enough = range(1, len(batch))
            number = bisect_left(enough, x=True, key=lambda n: fits(given.after(free, n), table, gang.demands))
            return batch[number][0]
        free = given.after(free, len(batch))
    return None


def ends(trial: Trial) -> Iterator[tuple[int, Grant]]:
    """When each gang that runs, or that the plan starts, ends at the latest, soonest first, and what it gives back.

    In ms, none before now. Gangs without a walltime never end.
    """
    now, snapshot = trial.now, trial.snapshot
    new = sorted((now + s.gang.walltime, s.gang.id) for s in trial.started if s.gang.walltime is not None)
    begun = {start.gang.id: start.grant for start in trial.started}
    for at, job_id in merge(snapshot.ends, new):
        if job_id in begun:
            yield at, begun[job_id]
        else:
            yield max(at, now), snapshot.grants[job_id]


def _batches(found: Iterator[tuple[int, Grant]]) -> Iterator[Sequence[tuple[int, Grant]]]:
    """Twice as many each time: most gangs need few ends, and none costs more than all of them together."""
    size = _FIRST_BATCH
    while batch := list(islice(found, size)):
        yield batch
        size *= 2


class _Given:
    """What the gangs of one batch give back, in their order."""

    def __init__(self, batch: Sequence[Grant]) -> None:
        self._until = np.cumsum([len(grant.rows) for grant in batch])
        self._rows = np.concatenate([grant.rows for grant in batch])
        self._amounts = np.concatenate([grant.amounts for grant in batch])

    def after(self, free: Amounts, gangs: int) -> Amounts:
        """`free` once the first `gangs` of them have ended."""
        until = self._until[gangs - 1]
        later = free.copy(order="F")
        np.add.at(later, self._rows[:until], self._amounts[:until])
        return later
