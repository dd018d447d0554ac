"""Schedules of a cluster that are CronTrainingJobs, read and changed with the user's own permissions."""

from __future__ import annotations

import time
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError as Refusal
from windlass.backends.kubernetes.client.connection import Connection, find_object, list_if_served
from windlass.backends.kubernetes.client.object_reference import job_id
from windlass.backends.kubernetes.gangs.name_suffix import name_suffix
from windlass.backends.kubernetes.schedules.schedule_turn import RUNS, SCHEDULES
from windlass.backends.kubernetes.served_kinds import is_kind_served
from windlass.cli.kubernetes.api_session import ApiSession
from windlass.jobs.kubernetes.labels import GANG, SCHEDULE
from windlass.jobs.kubernetes.manifest_reader import ManifestError
from windlass.jobs.kubernetes.schedules.cron_training_job import read, run_object
from windlass.jobs.kubernetes.schedules.run_plan import read_runs
from windlass.jobs.kubernetes.schedules.schedule_row import schedule_row
from windlass.server.errors import ApiError, ErrorCode

Json = dict[str, Any]


def serves_training_schedules(session: ApiSession) -> bool:
    """Tells whether the cluster has the kind CronTrainingJob, by discovery. Raises ApiError."""
    return session.run(is_kind_served(session.connection, SCHEDULES))


def list_training_schedules(session: ApiSession, namespace: str) -> list[Json]:
    """The CronTrainingJobs of a namespace as rows; none in a cluster without the kind. Raises ApiError."""
    found = session.run(_list(session.connection, namespace))
    return [_row(each) for each in found if not each["metadata"].get("deletionTimestamp")]


async def _list(connection: Connection, namespace: str) -> list[Json]:
    try:
        return await list_if_served(connection, SCHEDULES, namespace)
    except Refusal as error:
        if not error.is_forbidden:
            raise
        return []  # a user who may not see them has schedules of the other kind


def change_training_schedule(session: ApiSession, namespace: str, verb: str, name: str) -> Json | None:
    """Suspends, resumes or (cancel) deletes a CronTrainingJob, whose runs go on. Returns its row, None without one."""
    return session.run(_change(session.connection, namespace, verb, name))


async def _change(connection: Connection, namespace: str, verb: str, name: str) -> Json | None:
    try:
        if verb != "cancel":
            body = {"spec": {"suspend": verb == "suspend"}}
            return _row(await connection.patch(SCHEDULES, namespace, name, body))
        found = await connection.get(SCHEDULES, namespace, name)
        uid = found["metadata"]["uid"]
        await connection.delete(SCHEDULES, namespace, name, propagation="Orphan", uid=uid)
    except Refusal as error:
        if error.is_missing or error.is_forbidden:
            return None
        raise
    return _row(found)


def find_newest_run(session: ApiSession, namespace: str, name: str) -> str | None:
    """Returns the id of the living or latest run of a CronTrainingJob, None without one.

    Raises ApiError, also for a CronJob, whose runs are no jobs of Windlass.
    """
    return session.run(_newest_run(session.connection, namespace, name))


async def _newest_run(connection: Connection, namespace: str, name: str) -> str | None:
    manifest = await find_object(connection, SCHEDULES, namespace, name)
    if manifest is None:
        fix = f"read its pods: kubectl get pods -n {namespace} -l {GANG}={name}"
        raise ApiError(ErrorCode.BAD_REQUEST, f"{name} is a CronJob, and its runs have no TrainingJob", fix)
    found = await connection.list(RUNS, namespace, selector=f"{SCHEDULE}={name}")
    runs = read_runs(str(manifest["metadata"]["uid"]), found)
    meant = [run for run in runs if not run.end] or runs
    return job_id(RUNS.kind, namespace, meant[-1].name) if meant else None


def start_training_run(session: ApiSession, namespace: str, name: str) -> str | None:
    """Creates a run of a CronTrainingJob at once. Returns its name; None without such a schedule. Raises ApiError."""
    return session.run(_start(session.connection, namespace, name))


async def _start(connection: Connection, namespace: str, name: str) -> str | None:
    try:
        manifest = await find_object(connection, SCHEDULES, namespace, name)
    except Refusal as error:
        if not error.is_forbidden:
            raise
        return None
    if manifest is None:
        return None
    try:
        cron = read(manifest)
    except ManifestError as error:
        raise ApiError(ErrorCode.BAD_REQUEST, f"schedule {name}: {error}", "correct the CronTrainingJob") from None
    made = await connection.create(RUNS, run_object(cron, f"{name}-{name_suffix()}"))
    return str(made["metadata"]["name"])


def _row(manifest: Json) -> Json:
    return schedule_row(manifest, int(time.time() * 1000))
