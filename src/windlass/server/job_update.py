"""A requested change of a job's priority, time limit or begin time: new values, and whether its state allows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from windlass.core.lifecycle.spec_update import can_change
from windlass.core.model.job import Job
from windlass.core.model.status import TERMINAL, JobState
from windlass.jobs.syntax.durations import MAX_DURATION
from windlass.jobs.syntax.timestamps import MAX_MOMENT
from windlass.server.actions import describe_end
from windlass.server.errors import ApiError, ErrorCode

_MAX_PRIORITY = 10**9
FIELDS = ("priority", "walltime", "begin")


@dataclass(frozen=True, slots=True)
class JobUpdate:
    """New values of a job; None: as before. A `walltime` of 0 ms is no limit, a `begin` of 0 ms at once."""

    priority: int | None = None
    walltime: int | None = None
    begin: int | None = None


def read_priority(body: Mapping[str, Any]) -> int:
    """The `priority` in the body of a request. Raises ApiError."""
    value = body.get("priority")
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MAX_PRIORITY:
        raise ApiError(ErrorCode.BAD_REQUEST, f"priority is a whole number from -{_MAX_PRIORITY} to {_MAX_PRIORITY}")
    return value


def read_update(body: Mapping[str, Any]) -> JobUpdate:
    """The change in the body of a request. Raises ApiError."""
    if not body or not body.keys() <= set(FIELDS):
        raise ApiError(ErrorCode.BAD_REQUEST, f"an update of a job has {' or '.join(FIELDS)}, and nothing else")
    return JobUpdate(
        read_priority(body) if "priority" in body else None,
        _read_ms(body, "walltime", MAX_DURATION),
        _read_ms(body, "begin", MAX_MOMENT),
    )


def _read_ms(body: Mapping[str, Any], name: str, most: int) -> int | None:
    value = body.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most):
        return value
    raise ApiError(ErrorCode.BAD_REQUEST, f"{name} is a number of milliseconds from 0 to {most}")


def updated_job(state: JobState, update: JobUpdate) -> Job:
    """The job with other values. Raises ApiError if its state does not allow the change."""
    changed = state.job
    if update.priority is not None:
        changed = replace(changed, priority=update.priority)
    if update.walltime is not None:
        changed = replace(changed, walltime=update.walltime or None)
    if state.status.phase in TERMINAL:
        raise ApiError(ErrorCode.WRONG_STATE, f"{state.id} {describe_end(state.status)}")
    if update.begin is not None:
        if state.status.placement is not None:
            fix = "suspend it first, then change its begin time, then resume it"
            raise ApiError(ErrorCode.WRONG_STATE, f"{state.id} holds nodes: its begin time has passed", fix)
        changed = replace(changed, begin=update.begin or None)
    if not can_change(state, changed):
        what = "priority" if update.priority is not None and update.priority > state.job.priority else "time limit"
        raise ApiError(
            ErrorCode.WRONG_STATE,
            f"{state.id} holds nodes: its {what} can only become lower{_present(what, state.job)}",
            f"suspend it first, then change its {what}, then resume it",
        )
    return changed


def _present(what: str, job: Job) -> str:
    return f" than {job.priority}" if what == "priority" else ""
