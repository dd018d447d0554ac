"""Start, stop and end of a generation: the changes of state that the handlers of events share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

from windlass.core.lifecycle.commands import Command, Launch, Stop
from windlass.core.lifecycle.failure import backoff, requeue_backoff, verdict_wait
from windlass.core.model.gang import attained_service
from windlass.core.model.job import Job
from windlass.core.model.status import JobState, Phase, Placement, Status, Target

Outcome: TypeAlias = tuple[JobState, tuple[Command, ...]]

_NO_PLACE: dict[str, Any] = {
    "placement": None,
    "resize_to": None,
    "resized_at": None,
    "saved_at": None,
    "admitted_at": None,
    "launched_at": None,
    "running_since": None,
    "target": None,
    "stopping_since": None,
    "succeeded_members": 0,
    "container_restarts": 0,
    "restarting_members": 0,
    "added_members": 0,
    "grow_after": None,
}
DEADLINE_AFRESH: dict[str, Any] = {"started_at": None, "first_admitted_at": None}
"""Changes to the status of a job that was suspended: Kubernetes resets startTime as well."""
KEEPS_NODES = (Target.RESTART, Target.RESIZE)
"""Targets under which a stopped gang starts again on its nodes."""
_NAMED = 3
"""Number of nodes that a message names before it only counts."""


def change_status(state: JobState, **changes: Any) -> JobState:
    """The job with these fields of its status replaced."""
    return replace(state, status=replace(state.status, **changes))


def launch(state: JobState, now: int) -> Outcome:
    """Starts the next generation on the job's placement; another scheduler that places the job chooses a new one."""
    status = state.status
    assert status.placement is not None  # noqa: S101 - the invariant that Launch rests on
    placement, generation = status.placement, status.generation + 1
    if state.job.placed_by:
        placement = Placement({role: ("",) * len(names) for role, names in placement.nodes.items()})
    after = change_status(
        state,
        phase=Phase.ADMITTED,
        reason="Admitted",
        message=describe_start(state.job, placement),
        placement=placement,
        generation=generation,
        launched_at=now,
        running_since=None,
        not_before=None,
        target=None,
        stopping_since=None,
        succeeded_members=0,
        container_restarts=0,
        restarting_members=0,
        added_members=0,
        grow_after=None,
        is_gone=False,
    )
    return after, (Launch(state.id, generation, placement),)


def describe_start(job: Job, placement: Placement) -> str:
    """The nodes on which the gang starts, or the other scheduler that has yet to choose them, as text."""
    if any("" in names for names in placement.nodes.values()):
        return f"its nodes are chosen by the scheduler {job.placed_by}"
    return f"starting on {_name_some(placement)}"


def _name_some(placement: Placement) -> str:
    """The first few nodes: a gang may have thousands."""
    nodes = placement.distinct()
    more = len(nodes) - _NAMED
    return ",".join(nodes[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def stop_generation(state: JobState, target: Target, reason: str, message: str, now: int) -> Outcome:
    """Stops every process of the generation; `target` is what follows when the last is gone."""
    again = target in (*KEEPS_NODES, Target.REQUEUE)
    since = state.status.stopping_since
    after = change_status(
        state,
        phase=Phase.RESTARTING if again else state.status.phase,
        target=target,
        resize_to=state.status.resize_to if target in KEEPS_NODES else None,
        reason=reason,
        message=message,
        stopping_since=now if since is None else since,
        ended_at=now if target in (Target.SUCCEED, Target.FAIL) else None,
    )
    return after, (stop_command(after),)


def stop_command(state: JobState) -> Stop:
    """Stops the generation with the job's grace, or without grace once the job was killed."""
    return Stop(state.id, state.status.generation, state.stop_grace)


def become_target(state: JobState, now: int) -> Outcome:
    """The state after a stop, as decided when it began (`Status.target`); the last process has ended."""
    status = state.status
    match status.target:
        case Target.SUCCEED:
            return end_job(state, Phase.SUCCEEDED, "Succeeded", "", now)
        case Target.FAIL:
            return end_job(state, Phase.FAILED, status.reason, status.message, now)
        case Target.SUSPEND:
            return set_aside(state, now), ()
        case Target.REQUEUE:
            return requeue(state, now), ()
        case Target.RESIZE:
            return launch(_take_new_size(state), now)
        case _:
            return _restart_in_place(_take_new_size(state), now)


def _take_new_size(state: JobState) -> JobState:
    """The job on the nodes of a pending resize, if there is one."""
    status = state.status
    return state if status.resize_to is None else change_status(state, placement=status.resize_to, resize_to=None)


def _restart_in_place(state: JobState, now: int) -> Outcome:
    status, policy = state.status, state.job.restart
    wait = max(backoff(status.backoff_step, policy), verdict_wait(status, policy))
    return launch(state, now) if wait == 0 else wait_for_restart(state, now, wait)


def wait_for_restart(state: JobState, now: int, wait: int) -> Outcome:
    """Keeps the nodes, and starts the next generation after `wait` ms."""
    message = state.status.message
    if wait:
        message = f"{message}; starts again in {describe_seconds(wait)}"
    return change_status(state, not_before=now + wait, target=None, stopping_since=None, message=message), ()


def requeue(state: JobState, now: int) -> JobState:
    """Gives the nodes back and waits in the queue again, at the old place by age, until the backoff is over."""
    status, policy = state.status, state.job.restart
    wait = max(requeue_backoff(status, policy), verdict_wait(status, policy))
    not_before = now + wait if wait else None
    return change_status(state, phase=Phase.QUEUED, not_before=not_before, is_gone=True, **_give_back(state, now))


def withdraw_launch(state: JobState) -> JobState:
    """Requeues a gang whose last launch was not performed, as if it had never been decided."""
    status = state.status
    launched_at = status.launched_at
    assert launched_at is not None  # noqa: S101 - the gang is admitted
    first = None if status.first_admitted_at == launched_at else status.first_admitted_at
    return change_status(requeue(state, launched_at), generation=status.generation - 1, first_admitted_at=first)


def requeue_instead(state: JobState) -> JobState:
    """A gang that was to start again on its nodes gives them back instead."""
    return change_status(state, target=Target.REQUEUE, resize_to=None)


def set_aside(state: JobState, now: int) -> JobState:
    """Gives the nodes back and waits for a Resume."""
    changes = {"queued_at": None, "not_before": None, **DEADLINE_AFRESH, **_give_back(state, now)}
    return change_status(state, phase=Phase.SUSPENDED, **changes)


def nodes_to_use(status: Status) -> tuple[str, ...]:
    """Nodes on which the gang runs, or is to run next if it is being resized. Each node once."""
    placement = status.resize_to or status.placement
    return () if placement is None else placement.distinct()


def end_job(state: JobState, phase: Phase, reason: str, message: str, now: int) -> Outcome:
    """The job in a terminal phase, without nodes."""
    ended = now if state.status.ended_at is None else state.status.ended_at
    ends = {"ended_at": ended, "finished_at": now, "not_before": None}
    after = change_status(state, phase=phase, reason=reason, message=message, **ends)
    return change_status(after, **_give_back(state, now)), ()


def _give_back(state: JobState, now: int) -> dict[str, Any]:
    """The end of an allocation, as changes to its status."""
    status = state.status
    held = 0 if status.admitted_at is None else now - status.admitted_at
    service, stopped_at = attained_service(state, now), now if held else status.stopped_at
    return {**_NO_PLACE, "run_time": status.run_time + held, "service": service, "stopped_at": stopped_at}


def describe_seconds(duration: int) -> str:
    """A duration in ms as text: "1.5 s"."""
    return f"{duration / 1000:g} s"
