"""Cancels, suspends and resumes jobs by patching their objects with the user's own permissions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError as Refusal
from windlass.backends.kubernetes.client.resources import PODS
from windlass.cli.kubernetes.api_session import ApiSession
from windlass.cli.kubernetes.api_user import api_user
from windlass.cli.kubernetes.job_finder import JobFinder, list_pods
from windlass.cli.kubernetes.job_objects import JobObject
from windlass.core.model.status import TERMINAL, Phase
from windlass.jobs.kubernetes.job_patches import action_patch
from windlass.server.actions import describe_end
from windlass.server.errors import ApiError, ErrorCode

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobAction:
    """A change of a job's state. `by`: the user; `now`: kill without the grace period of the job."""

    verb: str
    by: str = ""
    now: bool = False


def apply_action(session: ApiSession, finder: JobFinder, action: JobAction, names: Sequence[str]) -> Json:
    """Applies an action to the named jobs. Raises ApiError if no job of a name is in a state that allows it."""
    possible: dict[str, JobObject] = {}
    for name in names:
        refusals = [(each, _refusal(action.verb, each)) for each in finder.get(name)]
        allowed = {each.id: each for each, refusal in refusals if not refusal}
        if not allowed:
            raise ApiError(ErrorCode.WRONG_STATE, f"{name} {refusals[-1][1]}")
        possible |= allowed
    session.run(_apply_to_all(session, action, list(possible.values())))
    return {"jobs": [{"id": job_id} for job_id in possible]}


async def _apply_to_all(session: ApiSession, action: JobAction, jobs: Sequence[JobObject]) -> None:
    if action.verb == "cancel":
        action = replace(action, by=await api_user(session.connection) or action.by)
    await asyncio.gather(*(_apply_to_one(session, action, each) for each in jobs))


async def _apply_to_one(session: ApiSession, action: JobAction, job: JobObject) -> None:
    await session.connection.patch(
        job.resource, job.namespace, job.name, action_patch(action.verb, job.resource.kind, action.by)
    )
    if action.verb == "cancel" and action.now:
        for pod in await list_pods(session, job):
            await _kill(session, pod)


async def _kill(session: ApiSession, pod: Json) -> None:
    metadata = pod["metadata"]
    try:
        await session.connection.delete(PODS, metadata["namespace"], metadata["name"], grace=0, uid=metadata["uid"])
    except Refusal as error:
        if not (error.is_missing or error.is_conflict):
            raise


def _refusal(verb: str, job: JobObject) -> str:
    """Returns why the state of a job does not allow the verb, "" if it does."""
    status = job.state().status
    phase = status.phase
    if phase in TERMINAL:
        return describe_end(status)
    if verb == "resume" and not job.suspended:
        return f"is not suspended: its state is {phase.value}"
    if verb == "suspend" and (job.suspended or phase is Phase.SUSPENDED):
        return "is suspended already"
    return ""
