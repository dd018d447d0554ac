"""Calls about schedules: jobs that the controller submits again at the times of a cron expression."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from windlass.client.connection import TargetConnection
from windlass.client.errors import InvalidRequestError
from windlass.client.job_function import BoundCall
from windlass.client.records import ScheduleInfo, ScheduleList, checked
from windlass.client.submission import JobSource, check_number, file_of, read_described, submit_here, warn_of
from windlass.jobs.description.submission import Submission
from windlass.server.errors import ApiError, ErrorCode


def list_schedules(connection: TargetConnection) -> ScheduleList:
    """Returns all schedules, by name; without a daemon those of its records."""
    _refuse_slurm(connection)
    source = connection.cluster() if connection.is_cluster else connection.local_records()
    return [checked(line, ScheduleInfo) for line in source.schedules()]


def create_schedule(connection: TargetConnection, job: JobSource, ship: str, fields: Mapping[str, Any]) -> ScheduleInfo:
    """Creates the schedule of the one job of a source. Raises InvalidRequestError for a job without cron."""
    _refuse_slurm(connection)
    if connection.is_cluster and isinstance(job, BoundCall):
        fix = "schedule a command of an image that holds the program"
        raise InvalidRequestError("calls of functions are not scheduled on a cluster", fix)
    described = read_described(connection, job, ship, fields)
    check_number(len(described.jobs), file_of(job), only_one=True)
    [submission] = described.jobs
    if submission.schedule is None:
        raise InvalidRequestError(f"{submission.job.name} has no schedule", 'give its times: cron="0 3 * * *"')
    if connection.is_cluster:
        _create_in_cluster(connection, submission, described.base, described.ship)
    else:
        submit_here(connection, [submission])
    return _required(connection, submission.job.name)


def act_on_schedule(connection: TargetConnection, verb: str, name: str) -> None:
    """Suspends, resumes or (cancel) deletes a schedule; its runs go on. Raises ApiError."""
    _required(connection, name)
    done = connection.controller().act_on_all(verb, [name])
    for error in done["errors"]:
        raise ApiError(ErrorCode(error["code"]), error["message"], error.get("fix", ""))


def start_run(connection: TargetConnection, name: str) -> str:
    """Starts a run of a schedule at once. Returns its id. Raises ApiError."""
    _refuse_slurm(connection)
    return connection.controller().run_schedule(name)[0]


def _create_in_cluster(connection: TargetConnection, submission: Submission, base: str, ship: str) -> None:
    from windlass.cli.kubernetes.schedules.cron_training_jobs import (  # noqa: PLC0415 - loads a cluster's libraries
        serves_training_schedules,
    )
    from windlass.cli.kubernetes.schedules.schedule_creation import create_schedules  # noqa: PLC0415 - as above
    from windlass.cli.kubernetes.submission import NO, objects_of_schedules, ship_code  # noqa: PLC0415 - as above

    cluster = connection.cluster()
    jobs, code = ship_code([submission], ship or NO, Path(base))
    as_cron_jobs = not serves_training_schedules(cluster.session)
    objects = objects_of_schedules(jobs, code, cluster.namespace, as_cron_jobs=as_cron_jobs)
    for text in (*objects.notes, *objects.warnings):
        warn_of(text)
    create_schedules(cluster.session, objects.manifests)


def _required(connection: TargetConnection, name: str) -> ScheduleInfo:
    """Returns a schedule. Raises ApiError NO_SUCH_JOB: a job of the same name is none."""
    found = next((each for each in list_schedules(connection) if each.name == name), None)
    if found is None:
        raise ApiError(ErrorCode.NO_SUCH_JOB, f"there is no schedule {name[:60]!r}", "schedules() lists all of them")
    return found


def _refuse_slurm(connection: TargetConnection) -> None:
    if connection.is_slurm:
        fix = "Slurm repeats scripts with scrontab"
        raise InvalidRequestError("Slurm has no schedules", fix)
