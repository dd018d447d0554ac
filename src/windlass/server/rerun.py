"""A job that has ended as a new submission. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from windlass import wire
from windlass.core.model.job import Job, Role
from windlass.core.model.status import TERMINAL, JobState
from windlass.jobs.description.submission import Submission
from windlass.jobs.kept_environment import hidden_names, with_secrets_of
from windlass.jobs.kubernetes.labels import RERUN_OF, SCHEDULE, SCHEDULED_AT
from windlass.jobs.secret_values import HIDDEN
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.submission_request import KEY_LABEL, SubmissionRequest

_OF_ONE_RUN = (KEY_LABEL, SCHEDULE, SCHEDULED_AT)
"""Labels that a second run does not get: those of its request, and of the schedule whose run the first was."""


@dataclass(frozen=True, slots=True)
class RerunEnvironment:
    """Variables that a second run inherits; None: the controller's, because those of the first are not known.

    `filled`: variables whose secret values are the controller's; `missing`: those that the controller lacks.
    """

    variables: Mapping[str, str] | None = None
    filled: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def checkpoints(self) -> str:
        """Place of checkpoints that both runs share; empty if the second has one of its own."""
        return (self.variables or {}).get(wire.CHECKPOINTS, "")


def rerun_environment(kept: Mapping[str, str] | None, present: Mapping[str, str]) -> RerunEnvironment:
    """The environment of an ended job without its secrets, which are taken from the controller's: `present`.

    Records of earlier versions have the place of checkpoints alone, with which no program would start.
    """
    if kept is None or set(kept) <= {wire.CHECKPOINTS}:
        return RerunEnvironment()
    secret = hidden_names(kept)
    return RerunEnvironment(
        with_secrets_of(kept, present),
        tuple(name for name in secret if name in present),
        tuple(name for name in secret if name not in present),
    )


def rerun_request(state: JobState, environment: Mapping[str, str] | None = None) -> SubmissionRequest:
    """The submission of an ended job again, alone and without what it waited for. Raises ApiError.

    `environment`: inherited by the ranks; None: they inherit the controller's.
    """
    if state.status.phase not in TERMINAL:
        raise ApiError(ErrorCode.WRONG_STATE, f"{state.id} has not ended", "wait for its end, or cancel it first")
    if any(_has_hidden(role) for role in state.job.roles):
        raise ApiError(
            ErrorCode.WRONG_STATE,
            f"{state.id} had secrets in its definition, which are not kept after the end",
            "submit it again from the command line",
        )
    return SubmissionRequest((Submission(_as_repeated(state)),), environment)


def _has_hidden(role: Role) -> bool:
    return (
        HIDDEN in role.env.values()
        or json.dumps(HIDDEN) in role.env.get(wire.CALL, "")
        or any(HIDDEN in word for word in role.command)
    )


def _as_repeated(state: JobState) -> Job:
    kept = {name: text for name, text in state.job.labels.items() if name not in _OF_ONE_RUN}
    return replace(state.job, after=(), array=None, labels={**kept, RERUN_OF: state.id})
