"""Handlers of elapsed times: deadline, walltime, start timeout, backoff, time to live. `state_machine` calls them."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.core.lifecycle.commands import Forget
from windlass.core.lifecycle.events import Timer
from windlass.core.lifecycle.generations import (
    Outcome,
    change_status,
    describe_seconds,
    end_job,
    launch,
    stop_command,
    stop_generation,
)
from windlass.core.lifecycle.transitions import expire_start
from windlass.core.model.status import TERMINAL, Failure, FailureClass, JobState, Phase, Target


@dataclass(frozen=True, slots=True)
class DueTimes:
    """Absolute times in ms; None: never."""

    deadline: int | None = None
    walltime: int | None = None
    start: int | None = None
    """The start timeout."""
    backoff: int | None = None
    avoidance: int | None = None
    """The nodes of a start that timed out are no longer avoided."""
    expiry: int | None = None
    """The time to live is over while processes of the ended job still run."""


def deadline_of(state: JobState) -> int | None:
    """Time in ms at which the deadline ends the job, in whatever phase."""
    admitted, deadline = state.status.first_admitted_at, state.job.deadline
    return None if admitted is None or deadline is None else admitted + deadline


def walltime_end(state: JobState) -> int | None:
    """Time in ms at which the current allocation must end."""
    admitted, walltime = state.status.admitted_at, state.job.walltime
    return None if admitted is None or walltime is None else admitted + walltime


def start_end(state: JobState) -> int | None:
    """Time in ms by which every member must have started."""
    launched, timeout = state.status.launched_at, state.job.start_timeout
    starting = state.status.phase is Phase.ADMITTED and state.status.target is None
    return launched + timeout if starting and launched is not None and timeout is not None else None


def expiry_of(state: JobState) -> int | None:
    """Time in ms at which the time to live of an ended job is over: it counts from the decision on its end."""
    status, ttl = state.status, state.job.ttl
    ended = status.finished_at if status.ended_at is None else status.ended_at
    return None if ended is None or ttl is None else ended + ttl


def on_timer(state: JobState, _event: Timer, now: int) -> Outcome:
    """Applies what is due: the deadline first, then the walltime, the start timeout, the end of a backoff.

    An ended job whose time to live is over is stopped, whatever its policy leaves to end by itself.
    """
    due = due_times(state)
    if _has_passed(due.expiry, now):
        return change_status(state, expired=True), (stop_command(state),)
    if _has_passed(due.deadline, now):
        return _expire(state, "DeadlineExceeded", "longer than its deadline of", state.job.deadline, now)
    if _has_passed(due.walltime, now):
        return _expire(state, "WalltimeExceeded", "longer than its --time of", state.job.walltime, now)
    if _has_passed(due.start, now):
        return expire_start(state, now)
    if _has_passed(due.avoidance, now):
        state = change_status(state, avoided_nodes=(), avoided_until=None)
    waited = _has_passed(due.backoff, now)
    if waited and state.status.phase is Phase.RESTARTING:
        return launch(state, now)
    return change_status(state, not_before=None) if waited else state, ()


def due_times(state: JobState) -> DueTimes:
    """Times at which time alone changes this job."""
    status = state.status
    if status.phase in TERMINAL:
        return DueTimes()
    if status.target in (Target.SUCCEED, Target.FAIL):
        return DueTimes(expiry=None if status.expired or state.job.ttl is None else expiry_of(state))
    leaving = status.target in (Target.SUSPEND, Target.REQUEUE)
    return DueTimes(
        deadline=deadline_of(state),
        walltime=None if leaving else walltime_end(state),
        start=start_end(state),
        backoff=status.not_before if status.is_gone else None,
        avoidance=status.avoided_until if status.phase is Phase.QUEUED else None,
    )


def _has_passed(due: int | None, now: int) -> bool:
    return due is not None and now >= due


def _expire(state: JobState, reason: str, what: str, limit: int | None, now: int) -> Outcome:
    message = f"{what} {describe_seconds(limit or 0)}"
    failure = Failure(FailureClass.USER, reason, message, now)
    expired = change_status(state, last_failure=failure)
    if expired.status.is_gone:
        return end_job(expired, Phase.FAILED, reason, message, now)
    return stop_generation(expired, Target.FAIL, reason, message, now)


def forget(state: JobState, _event: Timer, now: int) -> Outcome:
    """Removes a finished job whose time to live is over."""
    return state, (Forget(state.id),) if _has_passed(expiry_of(state), now) else ()
