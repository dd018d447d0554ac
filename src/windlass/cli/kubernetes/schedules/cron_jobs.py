"""Schedules of a cluster that does not serve CronTrainingJobs: CronJobs of Kubernetes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError as Refusal
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import CRON_JOBS, JOBS, SERVICES, Resource
from windlass.backends.kubernetes.gangs.name_suffix import name_suffix
from windlass.cli.kubernetes.api_session import ApiSession
from windlass.jobs.kubernetes.labels import GANG, SCHEDULE
from windlass.jobs.kubernetes.other_schedulers.cron_job import POLICIES
from windlass.jobs.schedules.cron_times import next_time, read_cron, read_time_zone
from windlass.jobs.schedules.schedule import KEPT_FAILED, KEPT_SUCCEEDED, UTC
from windlass.server.errors import ApiError, ErrorCode

Json = dict[str, Any]
_BY_HAND = {"cronjob.kubernetes.io/instantiate": "manual"}
"""Annotation of a Job that a user started, as of `kubectl create job --from`."""


async def create_cron_job(connection: Connection, manifest: Mapping[str, Any], service: Mapping[str, Any]) -> Json:
    """Creates a CronJob, and the service of its pods, which it owns. Returns the CronJob."""
    made = await connection.create(CRON_JOBS, manifest)
    owned = {**service, "metadata": {**service["metadata"], "ownerReferences": [_owner(CRON_JOBS, made["metadata"])]}}
    try:
        await connection.create(SERVICES, owned)
    except Refusal:
        await connection.delete(CRON_JOBS, manifest["metadata"]["namespace"], str(made["metadata"]["name"]))
        raise
    return made


def list_schedules(session: ApiSession, namespace: str) -> list[Json]:
    """The schedules of a namespace as rows, by name. Raises ApiError."""
    found = session.run(session.connection.list(CRON_JOBS, namespace, selector=SCHEDULE))
    there = [each for each in found if not each["metadata"].get("deletionTimestamp")]
    return sorted((_row(each) for each in there), key=lambda row: str(row["name"]))


def change_schedule(session: ApiSession, namespace: str, verb: str, name: str) -> Json:
    """Suspends, resumes or (cancel) deletes a schedule, whose runs go on. Returns its row. Raises ApiError."""
    if verb == "cancel":
        return _row(session.run(_delete(session, namespace, name)))
    body = {"spec": {"suspend": verb == "suspend"}}
    return _row(session.run(session.connection.patch(CRON_JOBS, namespace, name, body)))


async def _delete(session: ApiSession, namespace: str, name: str) -> Json:
    """Deletes a CronJob and leaves its Jobs. The service lives as long as the Jobs that have not ended."""
    cron_job = await session.connection.get(CRON_JOBS, namespace, name)
    uid = cron_job["metadata"]["uid"]
    jobs = await session.connection.list(JOBS, namespace, selector=f"{GANG}={name}")
    owners = [_owner(JOBS, each["metadata"]) for each in jobs if _is_owned(each, uid) and not _has_ended(each)]
    try:
        if owners:
            body = {"metadata": {"ownerReferences": owners}}
            await session.connection.patch(SERVICES, namespace, name, body)
        else:
            await session.connection.delete(SERVICES, namespace, name)
    except Refusal as error:
        if not error.is_missing:
            raise
    await session.connection.delete(CRON_JOBS, namespace, name, propagation="Orphan", uid=uid)
    return cron_job


def _owner(resource: Resource, metadata: Json) -> Json:
    """An owner reference to an object."""
    about = {"name": metadata["name"], "uid": metadata["uid"]}
    return {"apiVersion": resource.api_version, "kind": resource.kind, **about}


def _is_owned(job: Json, uid: str) -> bool:
    return any(each.get("uid") == uid for each in job["metadata"].get("ownerReferences") or ())


def _has_ended(job: Json) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each.get("type") in ("Complete", "Failed") and each.get("status") == "True" for each in conditions)


def start_run(session: ApiSession, namespace: str, name: str) -> str:
    """Creates a Job of a schedule at once. Returns its name. Raises ApiError."""
    return session.run(_start(session, namespace, name))


async def _start(session: ApiSession, namespace: str, name: str) -> str:
    try:
        cron_job = await session.connection.get(CRON_JOBS, namespace, name)
    except Refusal as error:
        if not error.is_missing:
            raise
        fix = "windlass queue --schedules lists all schedules"
        raise ApiError(ErrorCode.NO_SUCH_JOB, f"there is no schedule {name[:60]!r}", fix) from None
    template = cron_job["spec"]["jobTemplate"]
    about = template.get("metadata") or {}
    owner = {**_owner(CRON_JOBS, cron_job["metadata"]), "controller": True}
    metadata = {
        "name": f"{name}-{name_suffix()}",
        "namespace": namespace,
        "labels": about.get("labels") or {},
        "annotations": {**(about.get("annotations") or {}), **_BY_HAND},
        "ownerReferences": [owner],
    }
    body = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": template["spec"]}
    await session.connection.create(JOBS, body)
    return str(metadata["name"])


def _row(cron_job: Json) -> Json:
    """A CronJob as a row of a listing, with the fields of a daemon's schedule that Kubernetes knows."""
    about, spec, status = cron_job["metadata"], cron_job["spec"], cron_job.get("status") or {}
    policies = {theirs: str(ours) for ours, theirs in POLICIES.items()}
    last = _ms(status.get("lastScheduleTime"))
    created, suspended = _ms(about.get("creationTimestamp")), bool(spec.get("suspend"))
    zone = str(spec.get("timeZone") or UTC)
    deadline = spec.get("startingDeadlineSeconds")
    return {
        "name": str(about["name"]),
        "cron": str(spec["schedule"]),
        "time_zone": zone,
        "policy": policies.get(spec.get("concurrencyPolicy"), str(spec.get("concurrencyPolicy"))),
        "starting_deadline": None if deadline is None else deadline * 1000,
        "kept_succeeded": spec.get("successfulJobsHistoryLimit", KEPT_SUCCEEDED),
        "kept_failed": spec.get("failedJobsHistoryLimit", KEPT_FAILED),
        "suspended": suspended,
        "next": None if suspended else _next(str(spec["schedule"]), zone, int(time.time() * 1000)),
        "waiting": None,
        "last_run": last,
        "active": [str(each["name"]) for each in status.get("active") or ()],
        "missed": None,
        "skipped": None,
        "notes": [],
        "created_at": created,
    }


def _next(cron: str, zone: str, after: int) -> int | None:
    """The next time; None for an expression or zone that only Kubernetes can read."""
    try:
        return next_time(read_cron(cron), read_time_zone(zone), after)
    except ValueError:
        return None


def _ms(moment: str | None) -> int | None:
    """A time of the API server in ms."""
    return None if not moment else int(datetime.fromisoformat(moment).timestamp() * 1000)
