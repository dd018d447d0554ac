"""Why one gang waits: the first reason that holds, in the order of `reasons.Reason`."""

from __future__ import annotations

from windlass.core import gates, quota
from windlass.core.forecast import NEVER, End, Forecast
from windlass.core.gang import Pending, total_of
from windlass.core.reasons import Reason, Verdict
from windlass.core.shortage import capacity_verdict, never_verdict, shortage
from windlass.core.trial import Obstacle, Trial, fits_empty, mask_of


def verdict_of(trial: Trial, gang: Pending) -> Verdict:
    """Judge a gang that the trial left waiting, by what is free now that the plan's admissions have their nodes."""
    table, queue = trial.snapshot.table, quota.queue_named(trial.snapshot.queues, gang.queue)
    if answer := gates.verdict(gang, trial.arrays, trial.now):
        return answer
    if queue is None:
        return Verdict(Reason.MISCONFIGURED, f"there is no queue {gang.queue} any more")
    if not fits_empty(table, gang) and (short := shortage(trial.stock_if_empty, table, gang.demands)):
        return never_verdict(short)
    if answer := quota.verdict(queue, trial.used.get(gang.queue, {}), total_of(gang.demands)):
        return answer
    if short := shortage(trial.stock, table, gang.demands):
        return capacity_verdict(short)
    return _after(_goes_first(trial, gang))


def eta_of(trial: Trial, gang: Pending) -> int | None:
    """A time, in ms, only for a gang that holds its nodes with nobody before it: for others it would be a guess."""
    first = any(hold.first and hold.gang.id == gang.id for hold in trial.holds)
    return _enough_free_at(trial, gang) if first else None


def _enough_free_at(trial: Trial, gang: Pending) -> int | None:
    new = [End(NEVER if s.gang.walltime is None else trial.now + s.gang.walltime, s.grant) for s in trial.started]
    found = Forecast(trial.snapshot, trial.now, trial.free, new).first_fit(gang.demands)
    return None if found is None or found.at == NEVER else found.at


def _goes_first(trial: Trial, gang: Pending) -> Pending | None:
    """The first gang ahead whose claim on the queue's quota, or else on nodes, keeps this one waiting."""
    if trial.obstacles.get(gang.id) is Obstacle.QUOTA:
        return trial.first_in[gang.queue]
    mine = mask_of(trial.snapshot.table, gang.demands)
    ahead = (hold for hold in trial.holds if trial.turn(hold.gang) < trial.turn(gang))
    return next((hold.gang for hold in ahead if (hold.mask & mine).any()), None)


def _after(first: Pending | None) -> Verdict:
    if first is None:
        return Verdict(Reason.PENDING_EVALUATION, "would fit now; looked at again at the next change")
    return Verdict(Reason.WAITING_FOR_QUOTA, f"would fit now, but {first.id} goes first", behind=first.id)
