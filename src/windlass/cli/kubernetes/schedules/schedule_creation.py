"""Creates the schedules of a command line in a cluster, all of them or none."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError as Refusal
from windlass.backends.kubernetes.client.connection import Connection, find_object
from windlass.backends.kubernetes.client.resources import CRON_JOBS, SERVICES, Resource
from windlass.backends.kubernetes.schedules.schedule_turn import SCHEDULES
from windlass.cli.kubernetes.api_session import ApiSession
from windlass.cli.kubernetes.api_user import api_user, with_user
from windlass.cli.kubernetes.schedules.cron_jobs import create_cron_job
from windlass.jobs.kubernetes.labels import SCHEDULE
from windlass.server.errors import ApiError, ErrorCode

Json = dict[str, Any]
KINDS = (SCHEDULES.kind, CRON_JOBS.kind)
"""Kinds of schedules."""


def create_schedules(session: ApiSession, manifests: Sequence[Mapping[str, Any]]) -> list[str]:
    """Creates CronTrainingJobs, or CronJobs with their services. Returns the names. Raises ApiError.

    If one is refused, those before it are deleted again.
    """
    return session.run(_create_all(session.connection, manifests))


async def _create_all(connection: Connection, manifests: Sequence[Mapping[str, Any]]) -> list[str]:
    services = {each["metadata"]["name"]: each for each in manifests if each["kind"] == SERVICES.kind}
    user = await api_user(connection)
    made: list[tuple[Resource, Json]] = []
    try:
        for manifest in (each for each in manifests if each["kind"] in KINDS):
            if manifest["kind"] == CRON_JOBS.kind:
                service = services[manifest["metadata"]["name"]]
                made.append((CRON_JOBS, await _create_cron_job(connection, manifest, service)))
            else:
                made.append((SCHEDULES, await _create_training_schedule(connection, with_user(manifest, user))))
    except (Refusal, ApiError):
        for resource, each in made:
            await _delete(connection, resource, each["metadata"])
        raise
    return [str(each["metadata"]["name"]) for _, each in made]


async def _create_cron_job(connection: Connection, manifest: Mapping[str, Any], service: Mapping[str, Any]) -> Json:
    try:
        return await create_cron_job(connection, manifest, service)
    except Refusal as error:
        if not error.is_exists:
            raise
        raise _name_taken(CRON_JOBS, str(manifest["metadata"]["name"])) from None


async def _create_training_schedule(connection: Connection, manifest: Mapping[str, Any]) -> Json:
    """Creates a CronTrainingJob, unless a schedule of either kind has its name."""
    about = manifest["metadata"]
    namespace, name = str(about["namespace"]), str(about["name"])
    if await _is_cron_job(connection, namespace, name):
        raise _name_taken(CRON_JOBS, name)
    try:
        return await connection.create(SCHEDULES, manifest)
    except Refusal as error:
        if not error.is_exists:
            raise
        if error.unsure:  # created by our own attempt, whose answer was lost
            return await connection.get(SCHEDULES, namespace, name)
        raise _name_taken(SCHEDULES, name) from None


async def _is_cron_job(connection: Connection, namespace: str, name: str) -> bool:
    """Tells whether a CronJob that Windlass has made has this name; False for a user who may not read CronJobs."""
    try:
        found = await find_object(connection, CRON_JOBS, namespace, name)
    except Refusal as error:
        if not error.is_forbidden:
            raise
        return False
    return found is not None and SCHEDULE in (found["metadata"].get("labels") or {})


async def _delete(connection: Connection, resource: Resource, about: Json) -> None:
    with contextlib.suppress(Refusal):
        await connection.delete(resource, about["namespace"], about["name"], uid=about["uid"])


def _name_taken(resource: Resource, name: str) -> ApiError:
    """The error for a schedule whose name another one has."""
    fix = f"choose another --name, or delete that one: windlass cancel {name}"
    return ApiError(ErrorCode.WRONG_STATE, f"there is a {resource.kind} {name!r} already", fix)
