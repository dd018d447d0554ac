"""Handler of the verdict on a failed attempt: it is kept, and under `VerdictUse.ACT` it decides on the next attempt."""

from __future__ import annotations

from dataclasses import replace

from windlass.core.lifecycle.events import Diagnosed
from windlass.core.lifecycle.failure import backoff, requeue_backoff
from windlass.core.lifecycle.generations import (
    KEEPS_NODES,
    Outcome,
    change_status,
    end_job,
    nodes_to_use,
    requeue,
    requeue_instead,
    stop_generation,
)
from windlass.core.model.diagnosed_cause import (
    BY_VERDICT,
    JOB_SCOPE,
    DiagnosedCause,
    clip_text,
    is_lasting,
    is_repeated,
    node_to_avoid,
)
from windlass.core.model.job import VerdictUse
from windlass.core.model.status import TERMINAL, FailureClass, JobState, Phase, Target


def on_diagnosed(state: JobState, event: Diagnosed, now: int) -> Outcome:
    """Keeps the verdict. Under `VerdictUse.ACT` ends a job that would fail again, or avoids the node of the cause."""
    cause, known = event.cause, state.status.diagnosis
    is_old = known is not None and known.generation >= cause.generation
    if is_old or cause.generation > state.status.generation:
        return state, ()
    after = change_status(state, diagnosis=cause)
    if state.job.restart.verdict is not VerdictUse.ACT or state.status.phase in TERMINAL:
        return after, ()
    after = _avoid_faulty_node(after, cause)
    if cause.generation < state.status.generation:
        return change_status(after, diagnosis=_as_late(cause, state.status.generation)), ()
    if not _is_between_attempts(after, cause):
        return after, ()
    if _ends_job(after, cause):
        return _end(after, cause, now)
    return _leave_faulty_node(_end_wait(after, now), cause, now), ()


def _as_late(cause: DiagnosedCause, running: int) -> DiagnosedCause:
    text = f"{cause.text} (late: attempt {running} had started, restart.verdict had no effect on it)"
    return replace(cause, text=clip_text(text), is_late=True)


def _avoid_faulty_node(state: JobState, cause: DiagnosedCause) -> JobState:
    node, known = node_to_avoid(cause), state.status.faulty_nodes
    return change_status(state, faulty_nodes=(*known, node)) if node and node not in known else state


def _is_between_attempts(state: JobState, cause: DiagnosedCause) -> bool:
    """Whether the diagnosed attempt is the newest one, and the job is to start again."""
    status, failure = state.status, state.status.last_failure
    if failure is None or status.reason != failure.reason or status.generation != cause.generation:
        return False
    is_stopped = status.is_gone or status.target in (*KEEPS_NODES, Target.REQUEUE)
    return is_stopped and status.phase in (Phase.RESTARTING, Phase.QUEUED)


def _ends_job(state: JobState, cause: DiagnosedCause) -> bool:
    """Whether another attempt is futile: a lasting cause in the program or the job's description, or equal failures."""
    failure = state.status.last_failure
    is_own = cause.scope == JOB_SCOPE or (failure is not None and failure.kind is FailureClass.USER)
    return is_repeated(cause) or (is_lasting(cause) and is_own)


def _end(state: JobState, cause: DiagnosedCause, now: int) -> Outcome:
    failure = state.status.last_failure
    reason = state.status.reason if failure is None else failure.reason
    what = "" if failure is None else f"{failure.message}; "
    message = f"{what}not started again {BY_VERDICT}{cause.text}"
    if state.status.is_gone:
        return end_job(state, Phase.FAILED, reason, message, now)
    return stop_generation(state, Target.FAIL, reason, message, now)


def _leave_faulty_node(state: JobState, cause: DiagnosedCause, now: int) -> JobState:
    """Gives the nodes back if the gang was to start again on the one to avoid."""
    status, node = state.status, node_to_avoid(cause)
    if status.phase is not Phase.RESTARTING or node not in nodes_to_use(status):
        return state
    failure = "" if status.last_failure is None else f"{status.last_failure.message}; "
    told = change_status(state, message=f"{failure}node {node} is avoided {BY_VERDICT}{cause.text}")
    return requeue(told, now) if status.is_gone else requeue_instead(told)


def _end_wait(state: JobState, now: int) -> JobState:
    """Starts the gang after its backoff, counted from now, if it was to wait longer for the verdict."""
    status, policy = state.status, state.job.restart
    if status.not_before is None:
        return state
    is_queued = status.phase is Phase.QUEUED
    wait = requeue_backoff(status, policy) if is_queued else backoff(status.backoff_step, policy)
    return change_status(state, not_before=min(status.not_before, now + wait))
