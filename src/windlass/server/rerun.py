"""A job that has ended as a new submission. Pure."""

from __future__ import annotations

from dataclasses import replace

from windlass.core.model.job import Job, Role
from windlass.core.model.status import TERMINAL, JobState
from windlass.jobs.description.submission import Submission
from windlass.jobs.secret_values import HIDDEN
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.submission_request import KEY_LABEL, SubmissionRequest


def rerun_request(state: JobState) -> SubmissionRequest:
    """The submission of an ended job again, alone and without what it waited for. Raises ApiError.

    The record keeps no environment of an ended job: the new one inherits the controller's.
    """
    if state.status.phase not in TERMINAL:
        raise ApiError(ErrorCode.WRONG_STATE, f"{state.id} has not ended", "wait for its end, or cancel it first")
    if any(_has_hidden(role) for role in state.job.roles):
        raise ApiError(
            ErrorCode.WRONG_STATE,
            f"{state.id} had secrets in its definition, which are not kept after the end",
            "submit it again from the command line",
        )
    return SubmissionRequest((Submission(_without_origin(state.job)),))


def _has_hidden(role: Role) -> bool:
    return HIDDEN in role.env.values() or any(HIDDEN in word for word in role.command)


def _without_origin(job: Job) -> Job:
    labels = {name: text for name, text in job.labels.items() if name != KEY_LABEL}
    return replace(job, after=(), array=None, labels=labels)
