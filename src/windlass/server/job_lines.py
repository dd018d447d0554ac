"""A job as one line of a listing: a table of its fields. Times in ms, memory in bytes, CPU in milli-cores.

A listing of many jobs asks for the fields that it shows: the other ones are neither computed nor sent.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import msgspec

from windlass.core.lifecycle.failure import needs_diagnosis
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.elastic_size import job_at_maximum, present_job
from windlass.core.model.job import Job, total_request
from windlass.core.model.reasons import Verdict
from windlass.core.model.resources import GPU_MILLI
from windlass.core.model.status import JobState, Phase, Status
from windlass.jobs.secret_values import hide_in_command

Json: TypeAlias = dict[str, Any]


class PendingStatus(NamedTuple):
    """Verdict and queue position of a pending job in the last plan. `position` counts from 1; 0: not in the queue.

    `obstacle`: the diagnosis of what keeps a job from running that waits for longer than a short time.
    """

    verdict: Verdict | None = None
    position: int = 0
    obstacle: DiagnosedCause | None = None


NOT_PENDING = PendingStatus()


class _Listed(NamedTuple):
    """Parts of which the fields of a line are made. `verdict`: None unless the job is pending."""

    state: JobState
    status: Status
    job: Job
    waiting: PendingStatus
    verdict: Verdict | None


FIELDS: MappingProxyType[str, Callable[[_Listed], Any]] = MappingProxyType(
    {
        "id": lambda of: of.state.id,
        "number": lambda of: of.state.number,
        "name": lambda of: of.job.name,
        "array": lambda of: of.job.array.array_id if of.job.array else "",
        "index": lambda of: of.job.array.index if of.job.array else None,
        "user": lambda of: of.job.user,
        "queue": lambda of: of.job.queue,
        "priority": lambda of: of.job.priority,
        "phase": lambda of: of.status.phase.value,
        "reason": lambda of: of.verdict.reason.value if of.verdict else of.status.reason,
        "message": lambda of: of.verdict.message if of.verdict else of.status.message,
        "position": lambda of: of.waiting.position,
        "eta": lambda of: of.verdict.eta if of.verdict else None,
        "certainty": lambda of: of.verdict.certainty.value if of.verdict else "",
        "replicas": lambda of: of.job.members,
        "elastic": lambda of: _bounds(of.state.job),
        "ranks": lambda of: of.job.world_size,
        "request": lambda of: total_request(of.job),
        "gpu_milli": lambda of: max(role.resources.get(GPU_MILLI, 0) for role in of.job.roles),
        "gpu_types": lambda of: list(of.job.gpu_types),
        "nodes": lambda of: list(of.status.placement.distinct()) if of.status.placement else [],
        "attempts": lambda of: of.status.attempts,
        "created_at": lambda of: of.status.created_at,
        "queued_at": lambda of: of.status.queued_at,
        "admitted_at": lambda of: of.status.admitted_at,
        "started_at": lambda of: of.status.started_at,
        "running_since": lambda of: of.status.running_since,
        "finished_at": lambda of: of.status.finished_at,
        "stopped_at": lambda of: of.status.stopped_at or None,
        "run_time": lambda of: of.status.run_time,
        "walltime": lambda of: of.job.walltime,
        "exit_code": lambda of: exit_code(of.state),
        "diagnosis": lambda of: msgspec.to_builtins(of.status.diagnosis) if of.status.diagnosis else None,
        "awaits_diagnosis": lambda of: needs_diagnosis(of.status),
        "wait_diagnosis": lambda of: msgspec.to_builtins(of.waiting.obstacle) if of.waiting.obstacle else None,
    }
)
"""Name → value, for every line."""
FIELDS_ON_REQUEST: MappingProxyType[str, Callable[[_Listed], Any]] = MappingProxyType(
    {
        "procs": lambda of: max(role.procs for role in of.job.roles),
        "workdir": lambda of: of.job.workdir,
        "command": lambda of: shlex.join(hide_in_command(of.job.roles[0].command)),
        "after": lambda of: [f"{each.condition.value}:{each.job_id}" for each in of.job.after],
        "begin": lambda of: of.job.begin,
        "gate": lambda of: of.verdict.gate.value if of.verdict and of.verdict.gate else "",
        "limit": lambda of: of.verdict.limit.value if of.verdict and of.verdict.limit else "",
        "behind": lambda of: of.verdict.behind if of.verdict else "",
        "avoid": lambda of: list(of.job.avoid),
        "whole_node": lambda of: any(role.whole_node for role in of.job.roles),
        "labels": lambda of: dict(of.job.labels),
    }
)
"""Name → value, for lines that are asked for it."""
_ALL = {**FIELDS, **FIELDS_ON_REQUEST}


def job_line(state: JobState, waiting: PendingStatus = NOT_PENDING, fields: Iterable[str] = FIELDS) -> Json:
    """A job as one line of a listing, with these fields."""
    status = state.status
    verdict = waiting.verdict if status.phase is Phase.QUEUED else None
    of = _Listed(state, status, present_job(state), waiting, verdict)
    return {name: _ALL[name](of) for name in fields}


def _bounds(job: Job) -> list[int] | None:
    """Minimum and maximum number of replicas of an elastic job, else None."""
    if not any(role.elastic for role in job.roles):
        return None
    least = sum(role.replicas if role.min_replicas is None else role.min_replicas for role in job.roles)
    return [least, job_at_maximum(job).members]


def exit_code(state: JobState) -> int | None:
    """0 for a success; for a failure the code of the rank that caused it, 128 + n for signal n; else None."""
    status, failure = state.status, state.status.last_failure
    if status.phase is Phase.SUCCEEDED:
        return 0
    if status.phase is not Phase.FAILED or failure is None or failure.reason != status.reason:
        return None
    return failure.exit_code if failure.signal is None else 128 + failure.signal
