"""A requested change of a job's priority: its number, and whether the job's state allows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from windlass.core.lifecycle.spec_update import can_change
from windlass.core.model.job import Job
from windlass.core.model.status import TERMINAL, JobState
from windlass.server.actions import describe_end
from windlass.server.errors import ApiError, ErrorCode

_MAX_PRIORITY = 10**9


def read_priority(body: Mapping[str, Any]) -> int:
    """The `priority` in the body of a request. Raises ApiError."""
    value = body.get("priority")
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MAX_PRIORITY:
        raise ApiError(ErrorCode.BAD_REQUEST, f"priority is a whole number from -{_MAX_PRIORITY} to {_MAX_PRIORITY}")
    return value


def with_priority(state: JobState, priority: int) -> Job:
    """The job with another priority. Raises ApiError if its state does not allow the change."""
    changed = replace(state.job, priority=priority)
    if state.status.phase in TERMINAL:
        raise ApiError(ErrorCode.WRONG_STATE, f"{state.id} {describe_end(state.status)}")
    if not can_change(state, changed):
        raise ApiError(
            ErrorCode.WRONG_STATE,
            f"{state.id} holds nodes: its priority can only become lower than {state.job.priority}",
            "suspend it first, then change its priority, then resume it",
        )
    return changed
