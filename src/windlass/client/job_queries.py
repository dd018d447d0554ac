"""Queries and actions of one call each: what a client asks the controller, as records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.cli.current_user import current_user
from windlass.client.connection import TargetConnection
from windlass.client.errors import InvalidRequestError
from windlass.client.records import (
    JobExplanation,
    JobInfo,
    JobList,
    NodeInfo,
    NodeList,
    QueueInfo,
    QueueList,
    checked,
    explanation_of,
    job_of,
)
from windlass.core.model.status import CANCELLED, Phase
from windlass.server.discovery import LOST
from windlass.server.errors import ApiError


def read_job(connection: TargetConnection, job: str) -> JobInfo:
    """Returns the present state of a job or an array."""
    try:
        return job_of(connection.records().job(job))
    except ApiError as error:
        if connection.is_cluster or error.code not in LOST:
            raise
        return job_of(connection.records().job(job))  # the daemon has ended in the meantime: by its records


def list_jobs(connection: TargetConnection, filters: Mapping[str, Any]) -> JobList:
    """Returns the jobs of a listing. Raises InvalidRequestError for a phase that no job has."""
    known = {*Phase, CANCELLED}
    if unknown := [name for name in str(filters.get("phase") or "").split(",") if name and name not in known]:
        fix = f"phases: {', '.join((*Phase, CANCELLED))}"
        raise InvalidRequestError(f"no phase is named {unknown[0][:40]!r}", fix)
    return [job_of(line) for line in connection.records().jobs(**filters)]


def list_ended_jobs(connection: TargetConnection, filters: Mapping[str, Any]) -> JobList:
    """Returns ended jobs, the latest first."""
    return [job_of(line) for line in connection.records().history(**filters)]


def explain_job(connection: TargetConnection, job: str, what_if: str) -> JobExplanation:
    """Returns the reason for the state of a job; a supposed job needs a controller."""
    source = connection.job_controller() if what_if else connection.records()
    return explanation_of(source.explain(job, what_if) if what_if else source.explain(job))


def act_on_job(connection: TargetConnection, verb: str, job: str, how: Mapping[str, Any]) -> None:
    """Cancels, suspends or resumes a job or a whole array."""
    connection.job_controller().act(verb, job, by=current_user(), **how)


def read_metrics(connection: TargetConnection, job: str, filters: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the recorded telemetry of a job on this machine."""
    if connection.is_cluster or connection.is_slurm:
        raise InvalidRequestError(
            "metrics of jobs on a cluster are not recorded yet", "use `windlass top JOB`, or Prometheus"
        )
    return connection.records().metrics(job, **filters)  # type: ignore[union-attr]


def list_nodes(connection: TargetConnection) -> NodeList:
    """Returns the nodes."""
    return [checked(line, NodeInfo) for line in connection.controller().nodes()]


def list_queues(connection: TargetConnection) -> QueueList:
    """Returns the queues."""
    return [checked(line, QueueInfo) for line in connection.controller().queues()]
