"""The handlers of the lifecycle's table: one small function per kind of event.

Each takes (state, event, now) and returns the state after it with the commands it causes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from windlass.core.lifecycle.commands import Command, Forget, Launch, Stop
from windlass.core.lifecycle.events import (
    Admit,
    Cancel,
    DependencyEnded,
    Exit,
    GangGone,
    Kill,
    MemberExited,
    NodeClosed,
    NodeLost,
    Preempt,
    Recovered,
    Refused,
    Resized,
    Resume,
    Saved,
    Started,
    Submitted,
    Suspend,
    Timer,
)
from windlass.core.lifecycle.failure import (
    NODE_LOST,
    PREEMPTED,
    VANISHED,
    backoff,
    classify_exit,
    count_failure,
    describe_exhausted_limit,
    fail,
    gives_nodes_back,
)
from windlass.core.model.elastic_size import sized
from windlass.core.model.job import Job
from windlass.core.model.status import CANCELLED, TERMINAL, Failure, FailureClass, JobState, Phase, Status, Target

Outcome: TypeAlias = tuple[JobState, tuple[Command, ...]]

_NO_PLACE: dict[str, Any] = {
    "placement": None,
    "resize_to": None,
    "resized_at": None,
    "saved_at": None,
    "admitted_at": None,
    "running_since": None,
    "target": None,
    "stopping_since": None,
    "done": 0,
}
_STARTS_AGAIN = (Target.RESTART, Target.RESIZE)
"""What a gang is stopped for that keeps its nodes."""
_NAMED = 3
"""Nodes that a message names before it only counts."""


def created(job_id: str, number: int, job: Job, now: int) -> JobState:
    """A job that has just been handed in."""
    waits_for = tuple(dependency.job_id for dependency in job.after)
    return JobState(job_id, number, job, Status(created_at=now, waits_for=waits_for))


def _with(state: JobState, **changes: Any) -> JobState:
    return replace(state, status=replace(state.status, **changes))


# --- before it runs -------------------------------------------------------------------------------


def submitted(state: JobState, _event: Submitted, now: int) -> Outcome:
    """Into the queue, or aside if the job says so."""
    if state.job.suspend:
        return _with(state, phase=Phase.SUSPENDED, reason="Suspended", message="submitted suspended"), ()
    return _with(state, phase=Phase.QUEUED, reason="Queued", message="", queued_at=now), ()


def refused(state: JobState, event: Refused, now: int) -> Outcome:
    """It could never run: ended before it queued."""
    return _ended(state, Phase.FAILED, "Misconfigured", event.message, now)


def dependency_ended(state: JobState, event: DependencyEnded, now: int) -> Outcome:
    """One job fewer to wait for; or no hope left."""
    if not event.satisfied:
        return _ended(state, Phase.FAILED, "DependencyFailed", f"{event.job_id} did not succeed", now)
    left = tuple(job_id for job_id in state.status.waits_for if job_id != event.job_id)
    return _with(state, waits_for=left), ()


def admit(state: JobState, event: Admit, now: int) -> Outcome:
    """The nodes are the gang's: start it."""
    return _launch(_with(state, placement=event.placement, admitted_at=now))


def _launch(state: JobState) -> Outcome:
    status = state.status
    assert status.placement is not None  # noqa: S101 - the invariant that Launch rests on
    generation = status.generation + 1
    after = _with(
        state,
        phase=Phase.ADMITTED,
        reason="Admitted",
        message=f"starting on {_named(status.placement.distinct())}",
        generation=generation,
        running_since=None,
        not_before=None,
        target=None,
        stopping_since=None,
        done=0,
        gone=False,
    )
    return after, (Launch(state.id, generation, status.placement),)


def _named(nodes: tuple[str, ...]) -> str:
    """The first few names: a gang may have thousands of nodes."""
    more = len(nodes) - _NAMED
    return ",".join(nodes[:_NAMED]) + (f" and {more} more" if more > 0 else "")


# --- while it runs --------------------------------------------------------------------------------


def started(state: JobState, _event: Started, now: int) -> Outcome:
    """Every member runs; a gang that is already being stopped stays what it is becoming."""
    first = state.status.started_at
    return _with(
        state,
        phase=Phase.RUNNING,
        reason=state.status.reason if state.status.target else "Running",
        message=state.status.message if state.status.target else "",
        running_since=now,
        started_at=now if first is None else first,
    ), ()


def member_exited(state: JobState, event: MemberExited, now: int) -> Outcome:
    """A member is done, or its loss ends the generation."""
    status = state.status
    if status.target is not None:
        return state, ()
    if not event.exit.ok:
        return _member_failed(state, event, now)
    done = status.done | 1 << event.member
    after = _with(state, done=done)
    if done != (1 << sized(state.job, status.placement).members) - 1:
        return after, ()
    return _stop(after, Target.SUCCEED, "Completing", "all members succeeded", now)


def _member_failed(state: JobState, event: MemberExited, now: int) -> Outcome:
    finished = now if event.at is None else min(event.at, now)
    failure, fatal = _failure_of(state, event.exit, event.member, finished)
    return _lost_generation(state, failure, now, fatal=fatal)


def _failure_of(state: JobState, exit: Exit, member: int, at: int) -> tuple[Failure, bool]:
    """The failure, and whether it ends the job whatever the limits."""
    found = classify_exit(exit, state.job.restart)
    failure = Failure(FailureClass(found.kind), found.reason, exit.detail, at, member, exit.code, exit.signal)
    return failure, found.fatal


def forgives(state: JobState, exit: Exit, now: int) -> bool:
    """Whether a generation may go on after such an end of processes, by the limits that hold for whole restarts."""
    policy = state.job.restart
    failure, fatal = _failure_of(state, exit, 0, now)
    counted = _with(state, **count_failure(state.status, failure, policy))
    preempted = failure.kind is FailureClass.PREEMPTION
    return not (fatal or preempted or describe_exhausted_limit(counted.status, failure, policy))


def _lost_generation(state: JobState, failure: Failure, now: int, *, fatal: bool = False) -> Outcome:
    """Count the failure, and decide between another generation and the end."""
    policy = state.job.restart
    counted = _with(state, last_failure=failure, **count_failure(state.status, failure, policy))
    limit = describe_exhausted_limit(counted.status, failure, policy)
    if fatal or limit:
        plain = fatal or (failure.kind is FailureClass.USER and policy.user_limit == 0)
        message = failure.message if plain else f"{failure.message}; {limit}"
        return _stop(counted, Target.FAIL, failure.reason, message, now)
    again = Target.REQUEUE if gives_nodes_back(failure) else Target.RESTART
    return _stop(counted, again, failure.reason, failure.message, now)


def _stop(state: JobState, target: Target, reason: str, message: str, now: int) -> Outcome:
    """Stop every process of the generation; `target` is what comes when the last is gone."""
    again = target in (*_STARTS_AGAIN, Target.REQUEUE)
    since = state.status.stopping_since
    after = _with(
        state,
        phase=Phase.RESTARTING if again else state.status.phase,
        target=target,
        resize_to=state.status.resize_to if target in _STARTS_AGAIN else None,
        reason=reason,
        message=message,
        stopping_since=now if since is None else since,
    )
    return after, (stop_command(after),)


def stop_command(state: JobState) -> Stop:
    """Stops the generation with the job's grace, or without grace once the job was killed."""
    return Stop(state.id, state.status.generation, state.stop_grace)


def gang_gone(state: JobState, _event: GangGone, now: int) -> Outcome:
    """The last process is gone: become what was decided. Unasked for, it is a loss like any other."""
    if state.status.gone:
        return state, ()
    after = _with(state, gone=True)
    if after.status.target is None:
        failure = fail(VANISHED, "all members vanished unseen", now)
        after, _nothing_left_to_stop = _lost_generation(after, failure, now)
        if after.status.target is Target.RESTART:
            # by a timer that is due now: while it restarts it can still hear that one of its nodes is closed
            return _wait_for_restart(after, now, backoff(after.status.backoff_step, after.job.restart))
    return _become(after, now)


def _become(state: JobState, now: int) -> Outcome:
    status = state.status
    match status.target:
        case Target.SUCCEED:
            return _ended(state, Phase.SUCCEEDED, "Succeeded", "", now)
        case Target.FAIL:
            return _ended(state, Phase.FAILED, status.reason, status.message, now)
        case Target.SUSPEND:
            return _with(state, phase=Phase.SUSPENDED, queued_at=None, started_at=None, **_given_back(status, now)), ()
        case Target.REQUEUE:
            return _requeue(state, now), ()
        case Target.RESIZE:
            return _launch(_in_new_size(state))
        case _:
            return _restart(_in_new_size(state), now)


def _in_new_size(state: JobState) -> JobState:
    """With the nodes that it was to go on with, if it was."""
    status = state.status
    return state if status.resize_to is None else _with(state, placement=status.resize_to, resize_to=None)


def _given_back(status: Status, now: int) -> dict[str, Any]:
    """The end of an allocation, as changes to its status."""
    held = 0 if status.admitted_at is None else now - status.admitted_at
    return {**_NO_PLACE, "served": status.served + held, "stopped_at": now if held else status.stopped_at}


def _restart(state: JobState, now: int) -> Outcome:
    """On its nodes, after the backoff."""
    wait = backoff(state.status.backoff_step, state.job.restart)
    return _launch(state) if wait == 0 else _wait_for_restart(state, now, wait)


def _wait_for_restart(state: JobState, now: int, wait: int) -> Outcome:
    said = state.status.message
    message = f"{said}; starts again in {_seconds(wait)}" if wait else said
    return _with(state, not_before=now + wait, target=None, stopping_since=None, message=message), ()


def _requeue(state: JobState, now: int) -> JobState:
    """Back into the queue, at the old place by age."""
    wait = backoff(state.status.backoff_step, state.job.restart)
    not_before = now + wait if wait else None
    return _with(state, phase=Phase.QUEUED, not_before=not_before, gone=True, **_given_back(state.status, now))


def node_lost(state: JobState, event: NodeLost, now: int) -> Outcome:
    """A node of the gang is gone; what is left of it must stop, and the gang needs new nodes."""
    status = state.status
    if event.node not in nodes_to_use(status):
        return state, ()
    failure = fail(NODE_LOST, f"node {event.node} was lost", now)
    if status.target is Target.RESTART:
        return _requeued_instead(state), ()
    if status.target is Target.RESIZE:
        return _stop(_with(state, last_failure=failure), Target.REQUEUE, failure.reason, failure.message, now)
    if status.target is not None:
        return state, ()
    if status.gone:
        return _requeue(_with(state, last_failure=failure), now), ()
    return _lost_generation(state, failure, now)


def node_closed(state: JobState, event: NodeClosed, now: int) -> Outcome:
    """A gang that was to start again on its nodes cannot start on this one: it needs others."""
    status = state.status
    if event.node not in nodes_to_use(status):
        return state, ()
    if status.target in _STARTS_AGAIN:
        return _requeued_instead(state), ()
    if status.gone:
        return _requeue(state, now), ()
    return state, ()


def nodes_to_use(status: Status) -> tuple[str, ...]:
    """Where the gang runs, or is to run next if it is being resized. Each node once."""
    placement = status.resize_to or status.placement
    return () if placement is None else placement.distinct()


def _requeued_instead(state: JobState) -> JobState:
    """It was to start again, and cannot do so there."""
    return _with(state, target=Target.REQUEUE, resize_to=None)


def preempt(state: JobState, event: Preempt, now: int) -> Outcome:
    """The scheduler's other decision: these nodes are needed."""
    status = state.status
    failure = fail(PREEMPTED, event.message, now)
    if status.target in (Target.SUCCEED, Target.FAIL, Target.SUSPEND, Target.REQUEUE):
        return state, ()
    if status.target is Target.RESTART:
        return _requeued_instead(state), ()
    if status.gone:
        return _requeue(_with(state, last_failure=failure, preemptions=status.preemptions + 1), now), ()
    return _lost_generation(state, failure, now)


def resized(state: JobState, event: Resized, now: int) -> Outcome:
    """The scheduler's third decision: stop, so that it can save its work, and go on larger or smaller."""
    status = state.status
    if status.target not in (None, *_STARTS_AGAIN) or event.placement in (status.placement, status.resize_to):
        return state, ()
    if status.gone:
        return _with(state, placement=event.placement, resized_at=now), ()
    after = _with(state, resize_to=event.placement, resized_at=now)
    if status.target is not None:
        return after, ()
    return _stop(after, Target.RESIZE, "Resized", event.message, now)


def saved(state: JobState, event: Saved, now: int) -> Outcome:
    """What it has done so far would survive its end."""
    before = state.status.saved_at
    at = min(event.at, now)
    return (state if before is not None and before >= at else _with(state, saved_at=at)), ()


def recovered(state: JobState, event: Recovered, _now: int) -> Outcome:
    """A failure that cost no generation. It counts as what it was, so that limits are the same whoever restarts."""
    status = state.status
    if event.crew <= status.crew:
        return state, ()
    kind = classify_exit(event.exit, state.job.restart).kind
    count = status.recoveries + 1
    after = _with(
        state,
        crew=event.crew,
        recoveries=count,
        user_failures=status.user_failures + (kind == FailureClass.USER),
        infrastructure_failures=status.infrastructure_failures + (kind == FailureClass.INFRASTRUCTURE),
    )
    if status.target is not None:
        return after, ()
    last = f"{event.exit.detail}, back after {event.took / 1000:.2f} s"
    return _with(after, message=f"recovered in place {count}×, last: {last}"), ()


# --- what people ask for --------------------------------------------------------------------------


def suspend(state: JobState, event: Suspend, now: int) -> Outcome:
    """Off the nodes, kept for later."""
    message = f"suspended by {event.by}" if event.by else "suspended"
    status = state.status
    if status.target in (Target.SUCCEED, Target.FAIL):
        return state, ()
    if status.gone:
        quiet = _with(state, phase=Phase.SUSPENDED, reason="Suspended", message=message)
        return _with(quiet, queued_at=None, started_at=None, not_before=None, **_given_back(status, now)), ()
    return _stop(state, Target.SUSPEND, "Suspended", message, now)


def resume(state: JobState, _event: Resume, now: int) -> Outcome:
    """Back into the queue, at its end; the deadline counts afresh (as Kubernetes resets startTime)."""
    return _with(state, phase=Phase.QUEUED, reason="Queued", message="", queued_at=now), ()


def resume_while_stopping(state: JobState, _event: Resume, now: int) -> Outcome:
    """Resumed before the suspension was complete: queue again as soon as it is."""
    if state.status.target is not Target.SUSPEND:
        return state, ()
    again = {
        "target": Target.REQUEUE,
        "phase": Phase.RESTARTING,
        "queued_at": now,
        "started_at": None,
        "backoff_step": 0,
    }
    return _with(state, reason="Resumed", message="", **again), ()


def cancel(state: JobState, event: Cancel, now: int) -> Outcome:
    """The end, on request."""
    message = f"cancelled by {event.by}" if event.by else "cancelled"
    status = state.status
    if status.target in (Target.SUCCEED, Target.FAIL):
        return state, ()
    if status.gone:
        return _ended(state, Phase.FAILED, CANCELLED, message, now)
    return _stop(state, Target.FAIL, CANCELLED, message, now)


def kill(state: JobState, event: Kill, now: int) -> Outcome:
    """The end on request, without grace."""
    if state.status.gone:
        return cancel(state, Cancel(event.by), now)
    after, _ = cancel(_with(state, killed=True), Cancel(event.by), now)
    return after, (stop_command(after),)


# --- time -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dues:
    """Absolute times in ms; None: never."""

    deadline: int | None = None
    walltime: int | None = None
    backoff: int | None = None


def deadline_of(state: JobState) -> int | None:
    """When the job's deadline ends it, whatever it is doing."""
    started, deadline = state.status.started_at, state.job.deadline
    return None if started is None or deadline is None else started + deadline


def walltime_end(state: JobState) -> int | None:
    """When the current allocation must end."""
    admitted, walltime = state.status.admitted_at, state.job.walltime
    return None if admitted is None or walltime is None else admitted + walltime


def timer(state: JobState, _event: Timer, now: int) -> Outcome:
    """Deadline first, then walltime, then the end of a backoff."""
    due = dues(state)
    if _passed(due.deadline, now):
        return _expire(state, "DeadlineExceeded", f"longer than its deadline of {_seconds(state.job.deadline)}", now)
    if _passed(due.walltime, now):
        return _expire(state, "WalltimeExceeded", f"longer than its --time of {_seconds(state.job.walltime)}", now)
    if not _passed(due.backoff, now):
        return state, ()
    if state.status.phase is Phase.RESTARTING:
        return _launch(state)
    return _with(state, not_before=None), ()


def dues(state: JobState) -> Dues:
    """The moments at which time alone changes this job, as it stands."""
    status = state.status
    if status.target in (Target.SUCCEED, Target.FAIL) or status.phase in TERMINAL:
        return Dues()
    leaving = status.target in (Target.SUSPEND, Target.REQUEUE)
    return Dues(
        deadline=deadline_of(state),
        walltime=None if leaving else walltime_end(state),
        backoff=status.not_before if status.gone else None,
    )


def _passed(due: int | None, now: int) -> bool:
    return due is not None and now >= due


def _seconds(duration: int | None) -> str:
    return f"{(duration or 0) / 1000:g} s"


def _expire(state: JobState, reason: str, message: str, now: int) -> Outcome:
    failure = Failure(FailureClass.USER, reason, message, now)
    expired = _with(state, last_failure=failure)
    if expired.status.gone:
        return _ended(expired, Phase.FAILED, reason, message, now)
    return _stop(expired, Target.FAIL, reason, message, now)


def forget(state: JobState, _event: Timer, now: int) -> Outcome:
    """A finished job whose time to live is over."""
    ttl, finished = state.job.ttl, state.status.finished_at
    if ttl is None or finished is None or now < finished + ttl:
        return state, ()
    return state, (Forget(state.id),)


def _ended(state: JobState, phase: Phase, reason: str, message: str, now: int) -> Outcome:
    after = _with(state, phase=phase, reason=reason, message=message, finished_at=now, not_before=None)
    return _with(after, **_given_back(state.status, now)), ()
