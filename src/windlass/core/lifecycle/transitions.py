"""Handlers of the events of a job: submission, admission, starts, ends, lost nodes, preemption.

Each takes (state, event, now) and returns the new state and the commands. `state_machine` has the table that calls
them; users' requests are in `requests`, limits of time in `timers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from windlass.core.lifecycle.events import (
    Admit,
    DependencyEnded,
    Exit,
    GangGone,
    MemberExited,
    MembersPlaced,
    NodeClosed,
    NodeLost,
    NotLaunched,
    Preempt,
    PreemptionRefused,
    Recovered,
    Refused,
    Resized,
    Saved,
    SpecChanged,
    Started,
    Submitted,
)
from windlass.core.lifecycle.failure import (
    NODE_LOST,
    NOT_LAUNCHED,
    PREEMPTED,
    REJECTED,
    STALE_PLACEMENT,
    START_TIMEOUT,
    VANISHED,
    backoff,
    classify_exit,
    count_failure,
    describe_exhausted_limit,
    ended_by_failure,
    gives_nodes_back,
    make_failure,
    verdict_wait,
)
from windlass.core.lifecycle.generations import (
    KEEPS_NODES,
    Outcome,
    become_target,
    change_status,
    describe_seconds,
    describe_start,
    end_job,
    launch,
    nodes_to_use,
    requeue,
    requeue_instead,
    stop_generation,
    wait_for_restart,
    withdraw_launch,
)
from windlass.core.lifecycle.member_restarts import restart_or_fail
from windlass.core.lifecycle.scaling import (
    cannot_be_added,
    grows_in_place,
    on_spec_changed,
    remove_unstarted,
    rescale,
)
from windlass.core.lifecycle.success import has_succeeded
from windlass.core.model.elastic_size import job_in_size
from windlass.core.model.gang import attained_service
from windlass.core.model.job import Condition, Dependency, Job, RestartScope, SuccessPolicy, VerdictUse
from windlass.core.model.status import Failure, FailureClass, JobState, Phase, Status, Target
from windlass.core.model.steps import placed_step, step_after

UNEVICTABLE_MS = 600_000
"""Time for which a gang that could not be evicted is left out of preemption."""


def create_state(job_id: str, number: int, job: Job, now: int) -> JobState:
    """The state of a job that was just submitted."""
    waits_for = tuple(dict.fromkeys(dependency.job_id for dependency in job.after))
    return JobState(job_id, number, job, Status(created_at=now, waits_for=waits_for))


# --- before the start -----------------------------------------------------------------------------


def on_submitted(state: JobState, _event: Submitted, now: int) -> Outcome:
    """Queues the job, or suspends it if it was submitted suspended."""
    if state.job.suspend:
        return change_status(state, phase=Phase.SUSPENDED, reason="Suspended", message="submitted suspended"), ()
    return change_status(state, phase=Phase.QUEUED, reason="Queued", message="", queued_at=now), ()


def on_refused(state: JobState, event: Refused, now: int) -> Outcome:
    """Fails a job that could never run, before it queues."""
    return end_job(state, Phase.FAILED, "Misconfigured", event.message, now)


def on_dependency_ended(state: JobState, event: DependencyEnded, now: int) -> Outcome:
    """Removes a dependency; fails the job if the dependency was not satisfied."""
    if not event.satisfied:
        waits_for_failure = Dependency(event.job_id, Condition.FAILED) in state.job.after
        message = f"{event.job_id} {'did not fail' if waits_for_failure else 'did not succeed'}"
        return end_job(state, Phase.FAILED, "DependencyFailed", message, now)
    left = tuple(job_id for job_id in state.status.waits_for if job_id != event.job_id)
    return change_status(state, waits_for=left), ()


def admit(state: JobState, event: Admit, now: int) -> Outcome:
    """Starts the gang on the nodes that the scheduler assigned."""
    first = state.status.first_admitted_at
    changes = {"admitted_at": now, "first_admitted_at": now if first is None else first}
    return launch(change_status(state, placement=event.placement, **changes), now)


def on_not_launched(state: JobState, event: NotLaunched, now: int) -> Outcome:
    """Gives the nodes back and queues the job again, without a charge: no process was started."""
    if state.status.target is not None:
        return state, ()
    failure = make_failure(NOT_LAUNCHED, event.message, now)
    counts = count_failure(state.status, failure, state.job.restart)
    failed = change_status(state, reason=failure.reason, message=failure.message, last_failure=failure, **counts)
    return withdraw_launch(failed), ()


# --- while the gang holds nodes -------------------------------------------------------------------


def on_started(state: JobState, _event: Started, now: int) -> Outcome:
    """Every member runs. A gang that is being stopped keeps its target; one with too many members is made smaller."""
    first = state.status.started_at
    after = change_status(
        state,
        phase=Phase.RUNNING,
        reason=state.status.reason if state.status.target else "Running",
        message=state.status.message if state.status.target else "",
        running_since=now,
        started_at=now if first is None else first,
        failed_launches=0,
        avoided_nodes=(),
        avoided_until=None,
    )
    return on_spec_changed(after, SpecChanged(), now)


def on_member_exited(state: JobState, event: MemberExited, now: int) -> Outcome:
    """Counts a success; after a failure restarts the member or the gang, or ends the job."""
    status = state.status
    if status.target is not None:
        return state, ()
    if not event.exit.ok:
        is_added = cannot_be_added(status, event)
        return remove_unstarted(state, event.member, now) if is_added else _member_failed(state, event, now)
    succeeded = status.succeeded_members | 1 << event.member
    after = change_status(
        state, succeeded_members=succeeded, restarting_members=status.restarting_members & ~(1 << event.member)
    )
    running, following = job_in_size(state.job, status.placement), _following_step(state)
    if following is not None:
        running = replace(running, success=SuccessPolicy())  # the next step waits for all of this one
    if not has_succeeded(running, succeeded):
        return after, ()
    if following is not None:
        return _begin_step(after, following, now)
    deciding = state.job.success.roles
    message = f"succeeded by {', '.join(deciding)}" if deciding else "all members succeeded"
    return stop_generation(after, Target.SUCCEED, "Completing", message, now)


def _following_step(state: JobState) -> int | None:
    """The step after the one that runs; None if the job has succeeded with it."""
    placement = state.status.placement
    return None if placement is None else step_after(state.job, placed_step(state.job, placement))


def _begin_step(state: JobState, step: int, now: int) -> Outcome:
    """Stops what is left of a step that has succeeded, and queues the next one at the job's place, without backoff."""
    after = change_status(state, step=step, backoff_step=0, failed_launches=0)
    ended = ", ".join(role.name for role in job_in_size(state.job, state.status.placement).roles)
    return stop_generation(after, Target.REQUEUE, "StepSucceeded", f"{ended} succeeded; the next step follows", now)


def _member_failed(state: JobState, event: MemberExited, now: int) -> Outcome:
    finished = now if event.at is None else min(event.at, now)
    failure, fatal = _failure_of(state, event.exit, event.member, finished)
    concerns_nodes = failure.reason in (REJECTED.reason, STALE_PLACEMENT.reason)
    if state.job.restart.scope is RestartScope.MEMBER and not concerns_nodes:
        return restart_or_fail(state, event.member, event.exit, failure, now, fatal=fatal)
    return _lost_generation(state, failure, now, fatal=fatal)


def _failure_of(state: JobState, exit: Exit, member: int, at: int) -> tuple[Failure, bool]:
    """The failure, and whether it ends the job whatever the limits."""
    found = classify_exit(exit, state.job.restart)
    failure = Failure(FailureClass(found.kind), found.reason, exit.detail, at, member, exit.code, exit.signal)
    return failure, found.fatal


def can_recover_in_place(state: JobState, exit: Exit, now: int) -> bool:
    """Whether a generation may go on after such an end of processes, by the limits that hold for whole restarts.

    Not under `VerdictUse.ACT`: the verdict on the failure decides about the next start.
    """
    policy = state.job.restart
    if policy.verdict is VerdictUse.ACT:
        return False
    failure, fatal = _failure_of(state, exit, 0, now)
    counted = change_status(state, **count_failure(state.status, failure, policy))
    preempted = failure.kind is FailureClass.PREEMPTION
    return not (fatal or preempted or describe_exhausted_limit(counted.status, failure, policy))


def _lost_generation(state: JobState, failure: Failure, now: int, *, fatal: bool = False) -> Outcome:
    """Counts the failure, and decides between another generation and the end."""
    policy = state.job.restart
    counted = change_status(state, last_failure=failure, **count_failure(state.status, failure, policy))
    limit = describe_exhausted_limit(counted.status, failure, policy)
    if fatal or limit:
        plain = fatal or (failure.kind is FailureClass.USER and policy.user_limit == 0)
        message = failure.message if plain else f"{failure.message}; {limit}"
        return stop_generation(counted, Target.FAIL, failure.reason, message, now)
    again = Target.REQUEUE if gives_nodes_back(failure) else Target.RESTART
    return stop_generation(counted, again, failure.reason, failure.message, now)


def on_gang_gone(state: JobState, event: GangGone, now: int) -> Outcome:
    """Applies the target of the stop. Without a stop, all members were lost."""
    if state.status.is_gone:
        return state, ()
    after = change_status(state, is_gone=True)
    if after.status.target is None:
        failure = make_failure(VANISHED, "all members vanished unseen", now)
        after, _nothing_left_to_stop = _lost_generation(after, failure, now)
    if ended_by_failure(after.status):
        after = change_status(after, failed_generation=after.status.generation)
    if state.status.target is None and after.status.target is Target.RESTART:
        # by a timer that is due now: until then the gang can still learn that one of its nodes is closed
        wait = backoff(after.status.backoff_step, after.job.restart)
        return wait_for_restart(after, now, max(wait, verdict_wait(after.status, after.job.restart)))
    return become_target(_avoid_slow_nodes(after, event.unstarted, now), now)


def _avoid_slow_nodes(state: JobState, unstarted: Sequence[int], now: int) -> JobState:
    """After a start timeout: avoids the nodes of the members that did not start, or all if unknown, for as long."""
    status = state.status
    requeued = status.target is Target.REQUEUE and status.reason == START_TIMEOUT.reason
    if not requeued or status.placement is None or state.job.start_timeout is None:
        return state
    nodes = [node for role in state.job.roles for node in status.placement.nodes.get(role.name, ())]
    slow = [nodes[member] for member in unstarted if member < len(nodes)] or nodes
    avoided = tuple(dict.fromkeys((*status.avoided_nodes, *slow)))
    return change_status(state, avoided_nodes=avoided, avoided_until=now + state.job.start_timeout)


def on_members_placed(state: JobState, event: MembersPlaced, _now: int) -> Outcome:
    """Notes the nodes that another scheduler has chosen."""
    if not state.job.placed_by or event.placement == state.status.placement:
        return state, ()
    after = change_status(state, placement=event.placement)
    if state.status.phase is not Phase.ADMITTED:
        return after, ()
    return change_status(after, message=describe_start(state.job, event.placement)), ()


def expire_start(state: JobState, now: int) -> Outcome:
    """Requeues a gang of which not every member has started in time."""
    message = f"not every member had started after {describe_seconds(state.job.start_timeout or 0)}"
    return _lost_generation(state, make_failure(START_TIMEOUT, message, now), now)


def on_node_lost(state: JobState, event: NodeLost, now: int) -> Outcome:
    """Stops what is left of the gang and requeues it."""
    status = state.status
    if event.node not in nodes_to_use(status):
        return state, ()
    failure = make_failure(NODE_LOST, event.message or f"node {event.node} was lost", now)
    if status.target is Target.RESTART:
        return requeue_instead(state), ()
    if status.target is Target.RESIZE:
        return stop_generation(
            change_status(state, last_failure=failure), Target.REQUEUE, failure.reason, failure.message, now
        )
    if status.target is not None:
        return state, ()
    if status.is_gone:
        return requeue(change_status(state, last_failure=failure), now), ()
    return _lost_generation(state, failure, now)


def on_node_closed(state: JobState, event: NodeClosed, now: int) -> Outcome:
    """Requeues a gang that was to start again on a node where nothing may start."""
    status = state.status
    if event.node not in nodes_to_use(status):
        return state, ()
    if status.target in KEEPS_NODES:
        return requeue_instead(state), ()
    if status.is_gone:
        return requeue(state, now), ()
    return state, ()


def preempt(state: JobState, event: Preempt, now: int) -> Outcome:
    """Stops the gang and requeues it, because the scheduler needs its nodes."""
    status = state.status
    failure = make_failure(PREEMPTED, event.message, now)
    if status.target in (Target.SUCCEED, Target.FAIL, Target.SUSPEND, Target.REQUEUE):
        return state, ()
    if status.target is Target.RESTART:
        return requeue_instead(state), ()
    if status.is_gone:
        return requeue(change_status(state, last_failure=failure, preemptions=status.preemptions + 1), now), ()
    return _lost_generation(state, failure, now)


def on_preemption_refused(state: JobState, event: PreemptionRefused, now: int) -> Outcome:
    """The gang goes on, and is not preempted again for a while."""
    status = state.status
    is_preempted = status.last_failure is not None and status.last_failure.kind is FailureClass.PREEMPTION
    stops_for_it = status.target is Target.REQUEUE and is_preempted and not status.is_gone
    if event.generation != status.generation or not stops_for_it:
        return state, ()
    goes_on = change_status(
        state,
        phase=Phase.ADMITTED if status.running_since is None else Phase.RUNNING,
        target=None,
        stopping_since=None,
        reason="PreemptionRefused",
        message=event.message,
        preemptions=max(status.preemptions - 1, 0),
        unevictable_until=now + UNEVICTABLE_MS,
    )
    return goes_on, ()


def on_resized(state: JobState, event: Resized, now: int) -> Outcome:
    """Stops the gang, so that it can save its work, and starts it larger or smaller; or adds members in place."""
    status = state.status
    if status.target not in (None, *KEEPS_NODES) or event.placement in (status.placement, status.resize_to):
        return state, ()
    if grows_in_place(state, event.placement):
        return rescale(state, event.placement, now)
    service = attained_service(state, now)
    if status.is_gone:
        return change_status(state, placement=event.placement, resized_at=now, service=service), ()
    after = change_status(state, resize_to=event.placement, resized_at=now, service=service)
    if status.target is not None:
        return after, ()
    return stop_generation(after, Target.RESIZE, "Resized", event.message, now)


def on_saved(state: JobState, event: Saved, now: int) -> Outcome:
    """Notes when the gang last saved all of its work."""
    before = state.status.saved_at
    at = min(event.at, now)
    return (state if before is not None and before >= at else change_status(state, saved_at=at)), ()


def on_recovered(state: JobState, event: Recovered, _now: int) -> Outcome:
    """Counts a failure that the gang's agents recovered from, by its class: the limits are those of whole restarts."""
    status = state.status
    if event.agent_generation <= status.agent_generation:
        return state, ()
    kind = classify_exit(event.exit, state.job.restart).kind
    count = status.recoveries + 1
    after = change_status(
        state,
        agent_generation=event.agent_generation,
        recoveries=count,
        user_failures=status.user_failures + (kind == FailureClass.USER),
        infrastructure_failures=status.infrastructure_failures + (kind == FailureClass.INFRASTRUCTURE),
    )
    if status.target is not None:
        return after, ()
    last = f"{event.exit.detail}, back after {event.took / 1000:.2f} s"
    return change_status(after, message=f"recovered in place {count}×, last: {last}"), ()
