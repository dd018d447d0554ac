"""A client of a cluster with the calls and answers of `server.client.Client`.

Queries are inherited from `job_queries` and `operator_queries`. Here are the changes: submit, cancel, suspend and
resume jobs, and reserve nodes, with the permissions of the user on objects.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from windlass.cli.config_file import configured
from windlass.cli.kubernetes.api_session import ApiSession
from windlass.cli.kubernetes.api_user import api_user
from windlass.cli.kubernetes.job_actions import JobAction, apply_action
from windlass.cli.kubernetes.job_events import JobEvents
from windlass.cli.kubernetes.job_finder import JobFinder
from windlass.cli.kubernetes.job_queries import JobQueries
from windlass.cli.kubernetes.object_creation import create_objects, job_ids
from windlass.cli.kubernetes.operator_client import OperatorClient
from windlass.cli.kubernetes.operator_queries import OperatorQueries
from windlass.cli.kubernetes.pod_ranks import PodRank
from windlass.cli.kubernetes.reservations import reserve, unreserve
from windlass.cli.kubernetes.schedules.cron_jobs import change_schedule, list_schedules, start_run
from windlass.cli.kubernetes.schedules.cron_training_jobs import (
    change_training_schedule,
    find_newest_run,
    list_training_schedules,
    start_training_run,
)
from windlass.cli.named_job import choose_run
from windlass.cli.state_events import ReportedState
from windlass.server.errors import ApiError, ErrorCode

Json = dict[str, Any]


class ClusterClient(JobQueries, OperatorQueries):
    """One cluster, for one user and one namespace. Every call raises ApiError."""

    kind = "up"
    """As of a daemon: jobs outlive the process that submits them."""
    succeeded = False
    strict = False
    """Whether the API server refuses fields that the definition of a kind in this cluster does not have."""

    def __init__(self, session: ApiSession, namespace: str, *, namespace_given: bool, operator: str = "") -> None:
        self.session, self.namespace = session, namespace
        client, finder = OperatorClient(session, operator), JobFinder(session, namespace)
        OperatorQueries.__init__(self, client)
        JobQueries.__init__(self, client, finder, namespace if namespace_given else None)
        self._reported: dict[str, ReportedState] = {}

    @classmethod
    def at(cls, context: str, namespace: str = "") -> ClusterClient:
        """Connects to the cluster of a context ("": the current one) with the configured settings. Raises ApiError."""
        session, config = ApiSession.to(context), configured()
        given = namespace or config.namespace
        operator = os.environ.get("WINDLASS_OPERATOR") or config.operator
        return cls(session, given or session.access.namespace, namespace_given=bool(given), operator=operator)

    def user(self) -> str:
        """Returns the user's name as the API server knows it; "" if it does not tell it."""
        return self.session.run(api_user(self.session.connection))

    def submit(self, submissions: Sequence[Any], **_facts: Any) -> list[str]:
        """Creates the objects of jobs, all or none. Returns their ids in order."""
        return job_ids(create_objects(self.session, submissions, strict=self.strict))

    def act(self, verb: str, name: str, **how: Any) -> Json:
        """Cancels, suspends or resumes a job or a whole array."""
        return apply_action(self.session, self.finder, JobAction(verb, **how), [name])

    def act_on_all(self, verb: str, names: Sequence[str], **how: Any) -> Json:
        """Acts on several jobs and schedules: returns the changed `jobs` and `schedules`, and `errors`."""
        errors: list[Json] = []
        done: list[Json] = []
        schedules: list[Json] = []
        for name in names:
            try:
                done += self.act(verb, name, **how)["jobs"]
            except ApiError as error:
                if self._find_schedule(name, error):
                    schedules.append(self._change_schedule(verb, name))
                else:
                    errors.append(error.as_json()["error"])
        return {"jobs": done, "schedules": schedules, "errors": errors}

    def job(self, name: str) -> Json:
        """Returns all details of a job, or the row of a schedule that a name means if it means no job."""
        try:
            return super().job(name)
        except ApiError as error:
            if schedule := self._find_schedule(name, error):
                return schedule
            raise

    def newest_run(self, schedule: Json) -> str | None:
        """Returns the id of the living or latest run of a CronTrainingJob; None without one."""
        return find_newest_run(self.session, self.namespace, schedule["name"])

    def find_run(self, name: str) -> str | None:
        """Returns the id of the run that the name of a schedule means; None for another name. Raises ApiError."""
        schedule = self._schedule_named(name)
        return choose_run(self, schedule) if schedule else None

    def running_pod(self, name: str, rank: int) -> PodRank:
        """Returns the pod that currently runs a rank of a job, or of the run that the name of a schedule means."""
        try:
            return super().running_pod(name, rank)
        except ApiError as error:
            if schedule := self._find_schedule(name, error):
                return super().running_pod(choose_run(self, schedule), rank)
            raise

    def explain(self, name: str, what_if: str = "") -> Json:
        """Returns the reason why a job is pending, or the row of a schedule that a name means if it means no job."""
        try:
            return super().explain(name, what_if)
        except ApiError as error:
            if schedule := self._find_schedule(name, error):
                return {"schedule": schedule}
            raise

    def _find_schedule(self, name: str, error: ApiError) -> Json | None:
        """Returns the schedule of a name for which no job was found."""
        return self._schedule_named(name) if error.code is ErrorCode.NO_SUCH_JOB else None

    def _schedule_named(self, name: str) -> Json | None:
        """Returns the row of a schedule; None for another name, or for a user who may not list CronJobs."""
        if "/" in name:
            return None
        try:
            return next((row for row in self.schedules() if row["name"] == name), None)
        except ApiError:
            return None

    def schedules(self) -> list[Json]:
        """Returns the schedules of the namespace, by name: CronTrainingJobs and our CronJobs."""
        rows = [*list_training_schedules(self.session, self.namespace), *list_schedules(self.session, self.namespace)]
        return sorted(rows, key=lambda row: str(row["name"]))

    def _change_schedule(self, verb: str, name: str) -> Json:
        """Changes a CronTrainingJob, or the CronJob of that name if there is none."""
        row = change_training_schedule(self.session, self.namespace, verb, name)
        return row or change_schedule(self.session, self.namespace, verb, name)

    def run_schedule(self, name: str) -> list[str]:
        """Starts a run of a schedule at once. Returns the name of its TrainingJob or Job."""
        run = start_training_run(self.session, self.namespace, name)
        return [run or start_run(self.session, self.namespace, name)]

    def reserve(self, **request: Any) -> Json:
        """Reserves nodes by creating a Reservation, which needs the permission to create one."""
        return reserve(self.session, self.operator, request)

    def unreserve(self, name: str) -> Json:
        """Deletes a reservation."""
        return unreserve(self.session, name)

    def follow(self, names: str, after: int = 0) -> JobEvents:  # noqa: ARG002 - objects hold the current state
        """Streams the events of jobs (names separated by commas) from now on, beginning with their current state."""
        found = [each for name in names.split(",") for each in self.finder.find(name)]
        return JobEvents(self.session, self.operator, found, self._reported)

    def ping_api_server(self) -> None:
        """Raises ApiError if the API server does not answer."""
        self.session.run(self.session.connection.request("GET", "/version", within=2))

    def close(self) -> None:
        """Closes the connections."""
        self.session.close()
