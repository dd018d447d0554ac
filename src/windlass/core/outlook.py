"""When a gang will start if everything uses its walltime in full: the scheduler, run ahead of time."""

from __future__ import annotations

import heapq

from windlass.core.gang import Pending, started
from windlass.core.ledger import Ledger
from windlass.core.scheduler import decide
from windlass.core.snapshot import Snapshot

_MOST_WORK = 20_000
"""Lines looked at before it is too far off to tell: a second or so."""


def expected_start(snapshot: Snapshot, gang: Pending, now: int) -> int | None:
    """In ms, if nothing new comes in; None if that depends on a gang without a walltime, or is too far off to tell.

    An expectation, no promise: a gang that ends early may let another one overtake.
    """
    if gang.waits_for:
        return None
    ledger = Ledger.at(snapshot)
    ends = [(max(run.ends_by, now), run.id) for run in snapshot.running.values() if run.ends_by is not None]
    heapq.heapify(ends)
    turns = {line.gangs[0].not_before or now for line in snapshot.lines}
    turns |= {at for each in snapshot.reservations for at in (each.start, each.end)}
    by_time = sorted(turns)
    for _ in range(1 + _MOST_WORK // (1 + len(snapshot.lines))):
        # 1. who starts at this moment, or as soon as others are gone
        trial = decide(ledger.snapshot(), now)
        if gang.id in trial.evictions:
            return trial.evictions[gang.id].at
        for start in trial.started:
            if start.gang.id == gang.id:
                return now
            run = started(start.gang, start.placement, now)
            ledger.hold(run)
            if run.ends_by is not None:
                heapq.heappush(ends, (run.ends_by, run.id))
        # 2. on to the next moment at which anything changes
        moments = [at for at in by_time if at > now][:1] + [at for at, _ in ends[:1]]
        if not moments:
            return None
        now = min(moments)
        while ends and ends[0][0] <= now:
            ledger.release(heapq.heappop(ends)[1])
    return None
