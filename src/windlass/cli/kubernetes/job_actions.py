"""Cancelling, suspending and resuming: written into the job's object, under the user's own rights."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError as Refusal
from windlass.backends.kubernetes.client.resources import PODS
from windlass.cli.kubernetes.api_session import ApiSession
from windlass.cli.kubernetes.job_finder import JobFinder, list_pods
from windlass.cli.kubernetes.job_objects import JobObject
from windlass.core.model.status import TERMINAL, Phase
from windlass.server.actions import describe_end
from windlass.server.errors import ApiError, Code

Json = dict[str, Any]
CANCEL_ANNOTATION = "windlass.dev/cancel"
"""An annotation: the job is to end as cancelled, and who wants that."""


@dataclass(frozen=True, slots=True)
class JobAction:
    """What to do to a job. `by`: who wants it; `now`: without the job's grace."""

    verb: str
    by: str = ""
    now: bool = False


def apply_action(reach: ApiSession, finder: JobFinder, what: JobAction, names: Sequence[str]) -> Json:
    """Do it to the jobs that these names mean. Raises ApiError if it can be done to none of a name's."""
    possible: dict[str, JobObject] = {}
    for name in names:
        hindrances = [(each, _hindrance(what.verb, each)) for each in finder.the(name)]
        able = {each.id: each for each, why_not in hindrances if not why_not}
        if not able:
            raise ApiError(Code.WRONG_STATE, f"{name} {hindrances[-1][1]}")
        possible |= able
    reach.do(_all(reach, what, list(possible.values())))
    return {"jobs": [{"id": job_id} for job_id in possible]}


async def _all(reach: ApiSession, what: JobAction, jobs: Sequence[JobObject]) -> None:
    await asyncio.gather(*(_one(reach, what, each) for each in jobs))


async def _one(reach: ApiSession, what: JobAction, job: JobObject) -> None:
    await reach.connection.patch(job.resource, job.namespace, job.name, {**_patch(what, job)})
    if what.verb == "cancel" and what.now:
        for pod in await list_pods(reach, job):
            await _kill(reach, pod)


def _patch(what: JobAction, job: JobObject) -> Json:
    if what.verb == "cancel":
        return {"metadata": {"annotations": {CANCEL_ANNOTATION: what.by or "somebody"}}}
    suspend = {"suspend": what.verb == "suspend"}
    return {"spec": suspend if job.resource.kind == "TrainingJob" else {"runPolicy": suspend}}


async def _kill(reach: ApiSession, pod: Json) -> None:
    metadata = pod["metadata"]
    try:
        await reach.connection.delete(PODS, metadata["namespace"], metadata["name"], grace=0, uid=metadata["uid"])
    except Refusal as error:
        if not (error.is_missing or error.is_conflict):
            raise


def _hindrance(verb: str, job: JobObject) -> str:
    """Why this cannot be done to a job now, "" if it can."""
    status = job.state().status
    phase = status.phase
    if phase in TERMINAL:
        return describe_end(status)
    if verb == "resume" and not job.suspended:
        return f"is not suspended but {phase.value}"
    if verb == "suspend" and (job.suspended or phase is Phase.SUSPENDED):
        return "is suspended already"
    return ""
