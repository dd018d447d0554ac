"""A client of a cluster with the calls and answers of `server.client.Client`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from windlass.cli.config_file import configured
from windlass.cli.kubernetes.api_session import ApiSession
from windlass.cli.kubernetes.job_actions import JobAction, apply_action
from windlass.cli.kubernetes.job_events import JobEvents, ReportedState
from windlass.cli.kubernetes.job_finder import JobFinder, listing_order
from windlass.cli.kubernetes.job_objects import JobObject
from windlass.cli.kubernetes.object_creation import create_objects, job_ids
from windlass.cli.kubernetes.operator_client import OperatorClient
from windlass.cli.kubernetes.pod_ranks import PodRank, pod_nodes, pod_tasks, ranks_of_pods
from windlass.cli.kubernetes.reservations import reserve, unreserve
from windlass.core.model.status import TERMINAL, Phase
from windlass.server import views
from windlass.server.errors import ApiError, Code
from windlass.server.job_filter import parse_filter

Json = dict[str, Any]
_OPERATOR_UNAVAILABLE = (Code.NO_DAEMON, Code.NOT_ALLOWED)
"""Errors after which the objects are read instead of asking the operator."""
_DEFAULT_LIMIT = 1_000


class ClusterClient:
    """One cluster, for one user and one namespace. Every call raises ApiError.

    The operator answers what only it knows: positions, reasons, shares. If it does not answer, the state stored in the
    objects is returned, and a line on stderr says so.
    """

    kind = "up"
    """As of a daemon: jobs outlive the process that submits them."""
    succeeded = False
    strict = False
    """Whether the API server refuses fields that the definition of a kind in this cluster does not have."""

    def __init__(self, session: ApiSession, namespace: str, *, namespace_given: bool, operator: str = "") -> None:
        self.session = session
        self.namespace = namespace
        self.operator = OperatorClient(session, operator)
        self.finder = JobFinder(session, namespace)
        self._namespace_given = namespace_given
        """Whether the user named the namespace: then listings contain only its jobs."""
        self._warned = False
        self._reported: dict[str, ReportedState] = {}

    @classmethod
    def at(cls, context: str, namespace: str = "") -> ClusterClient:
        """Connects to the cluster of a context ("": the current one) with the configured settings. Raises ApiError."""
        session, config = ApiSession.to(context), configured()
        given = namespace or config.namespace
        operator = os.environ.get("WINDLASS_OPERATOR") or config.operator
        return cls(session, given or session.access.namespace, namespace_given=bool(given), operator=operator)

    # --- queries ------------------------------------------------------------------------------------

    def ping(self) -> Json:
        """Returns the state of the operator and of its cluster."""
        return self.operator.get("/v1/ping")

    def jobs(self, **filters: Any) -> list[Json]:
        """Returns jobs as lines of a listing, in queue order; only of the namespace, if one was given."""
        try:
            lines = self._of_namespace(self.operator.get("/v1/jobs", filters)["jobs"])
        except ApiError as error:
            self._fall_back_to_objects(error)
            lines = self._lines(filters)
        return lines

    def job(self, name: str) -> Json:
        """Returns the details of a job, or the lines of an array's members."""
        found = self.finder.find(name)
        if len(found) > 1:
            return {"id": name, "members": [views.job_line(each.state()) for each in found]}
        try:
            return self.operator.get(f"/v1/jobs/{self._id(name, found)}")
        except ApiError as error:
            if error.code is not Code.NO_SUCH_JOB:
                self._fall_back_to_objects(error)
            if not found:
                raise self._unknown(name, error) from None
            return self._details(found[0])  # the operator may not have read a new object yet

    def stored_logs(self, job_id: str) -> list[Json]:
        """Returns the log ends of members whose pods were deleted, as the operator has stored them."""
        return list(self.operator.get(f"/v1/jobs/{job_id}/logs")["logs"])

    def ranks(self, job: JobObject) -> list[PodRank]:
        """Returns the pods of a job, by generation and rank."""
        return ranks_of_pods(job, self.finder.pods(job))

    def running_pod(self, name: str, rank: int) -> PodRank:
        """Returns the pod that currently runs a rank."""
        found = self.finder.get(name)
        if len(found) > 1:
            raise ApiError(Code.BAD_REQUEST, f"{name} is an array", f"name one of its jobs: {found[0].id}")
        living = [pod for pod in self.ranks(found[0]) if pod.phase == "Running" and pod.rank == rank]
        if not living:
            raise ApiError(Code.WRONG_STATE, f"{found[0].id} has no running pod of rank {rank}")
        return living[-1]

    def explain(self, name: str, what_if: str = "") -> Json:
        """Returns why a job waits, with counts; `what_if`: as if it had requested that."""
        found = sorted(self.finder.find(name), key=_is_queued)[-1:]
        try:
            return self.operator.get(f"/v1/jobs/{self._id(name, found)}/why", {"what_if": what_if})
        except ApiError as error:
            if what_if:
                raise
            if error.code is not Code.NO_SUCH_JOB:
                self._fall_back_to_objects(error)
            if not found:
                raise self._unknown(name, error) from None
            return {"job": views.job_line(found[0].state()), "now": 0}

    def unplaceable_reason(self, job_id: str) -> str:
        """Returns why a waiting job can never run on the cluster as it is, by the operator; "" if it can."""
        return str(self.operator.get(f"/v1/prospects/{job_id}").get("never", ""))

    def explain_all(self) -> Json:
        """Returns all waiting jobs with their reasons."""
        answer = self.operator.get("/v1/why")
        return {**answer, "jobs": self._of_namespace(answer["jobs"])}

    def history(self, **filters: Any) -> list[Json]:
        """Returns jobs that have ended, latest first."""
        try:
            return self._of_namespace(self.operator.get("/v1/history", filters)["jobs"])
        except ApiError as error:
            self._fall_back_to_objects(error)
        ended = [line for line in self._lines({"all": "1"}) if line["finished_at"] is not None]
        wanted = [line for line in ended if _matches(line, filters)]
        return sorted(wanted, key=lambda line: -line["finished_at"])[: int(filters.get("limit") or _DEFAULT_LIMIT)]

    def nodes(self) -> list[Json]:
        """Returns the nodes with the jobs on them."""
        return list(self.operator.get("/v1/nodes")["nodes"])

    def queues(self) -> list[Json]:
        """Returns the queues with quota and usage."""
        return list(self.operator.get("/v1/queues")["queues"])

    def shares(self) -> Json:
        """Returns the fair share and the usage of every queue."""
        return self.operator.get("/v1/shares")

    def snapshot(self, *, planned: bool = False) -> Json:
        """Returns the state of the scheduler, now or (`planned`) of its last cycle."""
        return self.operator.get("/v1/snapshot", {"planned": "1"} if planned else None)

    def reservations(self) -> list[Json]:
        """Returns the reservations, earliest first."""
        return list(self.operator.get("/v1/reservations")["reservations"])

    # --- changes -----------------------------------------------------------------------------------

    def submit(self, submissions: Sequence[Any], **_facts: Any) -> list[str]:
        """Creates the objects of jobs, all or none. Returns their ids in order."""
        return job_ids(create_objects(self.session, submissions, strict=self.strict))

    def act(self, verb: str, name: str, **how: Any) -> Json:
        """Cancels, suspends or resumes a job or a whole array."""
        return apply_action(self.session, self.finder, JobAction(verb, **how), [name])

    def act_on_all(self, verb: str, names: Sequence[str], **how: Any) -> Json:
        """Acts on several jobs: returns the changed `jobs`, and `errors`."""
        errors: list[Json] = []
        done: list[Json] = []
        for name in names:
            try:
                done += self.act(verb, name, **how)["jobs"]
            except ApiError as error:
                errors.append(error.as_json()["error"])
        return {"jobs": done, "errors": errors}

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

    # --- without the operator ------------------------------------------------------------------------

    def _fall_back_to_objects(self, error: ApiError) -> None:
        """Prints once that the state of the objects is shown without the operator. Raises any other error."""
        if error.code not in _OPERATOR_UNAVAILABLE:
            raise error
        if not self._warned:
            print(f"windlass: showing the state stored in the objects; {error.message}", file=sys.stderr)
        self._warned = True

    def _id(self, name: str, found: Sequence[JobObject]) -> str:
        """Returns the id of a job for the operator, even if its object was deleted."""
        return found[0].id if found else self.finder.id_of(name)

    def _unknown(self, name: str, error: ApiError) -> ApiError:
        """Returns the error for an unknown name; the operator's own error if the name matches several ended jobs."""
        several = error.code is Code.NO_SUCH_JOB and error.fix
        return error if several else self.finder.unknown_error(name)

    def _of_namespace(self, lines: Iterable[Json]) -> list[Json]:
        if not self._namespace_given:
            return list(lines)
        return [line for line in lines if line["id"].startswith(f"{self.namespace}/")]

    def _lines(self, filters: Mapping[str, Any]) -> list[Json]:
        """Returns jobs by their objects: jobs that hold nodes, waiting jobs, others, ended jobs."""
        wanted, limit = parse_filter(filters), int(filters.get("limit") or _DEFAULT_LIMIT)
        everything = self.finder.all(None if not self._namespace_given else self.namespace)
        states = [each.state() for each in everything]
        chosen = [s for s in states if (wanted.ended or s.status.phase not in TERMINAL) and wanted.has(s)]
        lines = [views.job_line(state) for state in sorted(chosen, key=listing_order)]
        return lines[:limit]

    def _details(self, found: JobObject) -> Json:
        """Returns the details of a job without the operator: its state and the nodes of its pods."""
        state = found.state()
        pods = self.finder.pods(found)
        line = views.job_line(state)
        details = views.job_details(state, views.NOT_PENDING, pod_tasks(found, pods), ())
        return {**details, **line, "nodes": line["nodes"] or pod_nodes(pods)}


def _is_queued(found: JobObject) -> bool:
    """Whether a job waits; sorts a waiting member of an array last."""
    return found.state().status.phase is Phase.QUEUED


def _matches(line: Json, filters: Mapping[str, Any]) -> bool:
    """Whether an ended job matches the filters."""
    fits = all(not filters.get(key) or line[key] == filters[key] for key in ("name", "user"))
    return fits and line["finished_at"] >= int(filters.get("since") or 0)
