"""Handlers of users' requests: suspend, resume, cancel, kill. `state_machine` has the table that calls them."""

from __future__ import annotations

from windlass.core.lifecycle.events import Cancel, Kill, Resume, Suspend
from windlass.core.lifecycle.generations import (
    DEADLINE_AFRESH,
    Outcome,
    change_status,
    end_job,
    set_aside,
    stop_command,
    stop_generation,
)
from windlass.core.model.status import CANCELLED, JobState, Phase, Target

_BACKOFF_AFRESH = {"backoff_step": 0, "failed_launches": 0}


def suspend(state: JobState, event: Suspend, now: int) -> Outcome:
    """Stops the gang, if it runs, and keeps the job until it is resumed."""
    message = f"suspended by {event.by}" if event.by else "suspended"
    status = state.status
    if status.target in (Target.SUCCEED, Target.FAIL):
        return state, ()
    if status.is_gone:
        return set_aside(change_status(state, reason="Suspended", message=message), now), ()
    return stop_generation(state, Target.SUSPEND, "Suspended", message, now)


def resume(state: JobState, _event: Resume, now: int) -> Outcome:
    """Back into the queue, at its end, without backoff; the deadline counts afresh (as Kubernetes resets startTime)."""
    return change_status(state, phase=Phase.QUEUED, reason="Queued", message="", queued_at=now, **_BACKOFF_AFRESH), ()


def resume_while_stopping(state: JobState, _event: Resume, now: int) -> Outcome:
    """Queues again as soon as the suspension that is under way is complete."""
    if state.status.target is not Target.SUSPEND:
        return state, ()
    again = {
        "target": Target.REQUEUE,
        "phase": Phase.RESTARTING,
        "queued_at": now,
        **_BACKOFF_AFRESH,
        **DEADLINE_AFRESH,
    }
    return change_status(state, reason="Resumed", message="", **again), ()


def cancel(state: JobState, event: Cancel, now: int) -> Outcome:
    """Ends the job on request."""
    message = f"cancelled by {event.by}" if event.by else "cancelled"
    status = state.status
    if status.target in (Target.SUCCEED, Target.FAIL):
        return state, ()
    if status.is_gone:
        return end_job(state, Phase.FAILED, CANCELLED, message, now)
    return stop_generation(state, Target.FAIL, CANCELLED, message, now)


def kill(state: JobState, event: Kill, now: int) -> Outcome:
    """Ends the job on request, without grace."""
    if state.status.is_gone:
        return cancel(state, Cancel(event.by), now)
    after, _ = cancel(change_status(state, killed=True), Cancel(event.by), now)
    return after, (stop_command(after),)
