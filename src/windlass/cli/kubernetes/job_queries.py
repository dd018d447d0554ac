"""Queries about jobs of a cluster: answered by the operator, or from the jobs' objects if it does not answer.

The operator knows positions, reasons and shares; the objects hold the last committed state of each job. Part of
`client.ClusterClient`; what only the operator can answer is in `operator_queries`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from windlass.cli.kubernetes.job_finder import JobFinder, listing_order
from windlass.cli.kubernetes.job_objects import JobObject
from windlass.cli.kubernetes.operator_client import OperatorClient
from windlass.cli.kubernetes.pod_ranks import PodRank, pod_nodes, pod_tasks, ranks_of_pods
from windlass.core.model.status import TERMINAL, Phase
from windlass.server import views
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.job_filter import parse_fields, parse_filter
from windlass.server.job_lines import NOT_PENDING, job_line

Json = dict[str, Any]
_OPERATOR_UNAVAILABLE = (ErrorCode.NO_DAEMON, ErrorCode.NOT_ALLOWED)
"""Errors after which the objects are read instead of asking the operator."""
_DEFAULT_LIMIT = 1_000


class JobQueries:
    """Jobs of one namespace, or (`namespace` is None) of all. Every call raises ApiError.

    Prints one line on stderr when the objects are shown without the operator.
    """

    def __init__(self, operator: OperatorClient, finder: JobFinder, namespace: str | None) -> None:
        self.operator, self.finder = operator, finder
        self._listed_namespace = namespace
        self._warned = False

    def jobs(self, **filters: Any) -> list[Json]:
        """Returns jobs as lines of a listing, in queue order; only of the namespace, if one was given."""
        try:
            lines = self._listing("/v1/jobs", filters)
        except ApiError as error:
            self._fall_back_to_objects(error)
            lines = _stored_lines(self.finder, self._listed_namespace, filters)
        return lines

    def job(self, name: str) -> Json:
        """Returns the details of a job, or the lines of an array's members."""
        found = self.finder.find(name)
        if len(found) > 1:
            return {"id": name, "members": [job_line(each.state()) for each in found]}
        try:
            return self.operator.get(f"/v1/jobs/{self._id(name, found)}")
        except ApiError as error:
            if error.code is not ErrorCode.NO_SUCH_JOB:
                self._fall_back_to_objects(error)
            if not found:
                raise self._unknown(name, error) from None
            return _stored_details(self.finder, found[0])  # the operator may not have read a new object yet

    def ranks(self, job: JobObject) -> list[PodRank]:
        """Returns the pods of a job, by generation and rank."""
        return ranks_of_pods(job, self.finder.pods(job))

    def running_pod(self, name: str, rank: int) -> PodRank:
        """Returns the pod that currently runs a rank."""
        found = self.finder.get(name)
        if len(found) > 1:
            raise ApiError(ErrorCode.BAD_REQUEST, f"{name} is an array", f"name one of its jobs: {found[0].id}")
        living = [pod for pod in self.ranks(found[0]) if pod.phase == "Running" and pod.rank == rank]
        if not living:
            raise ApiError(ErrorCode.WRONG_STATE, f"{found[0].id} has no running pod of rank {rank}")
        return living[-1]

    def explain(self, name: str, what_if: str = "") -> Json:
        """Returns why a job waits, with counts; `what_if`: as if it had requested that."""
        found = sorted(self.finder.find(name), key=_is_queued)[-1:]
        try:
            return self.operator.get(f"/v1/jobs/{self._id(name, found)}/why", {"what_if": what_if})
        except ApiError as error:
            if what_if:
                raise
            if error.code is not ErrorCode.NO_SUCH_JOB:
                self._fall_back_to_objects(error)
            if not found:
                raise self._unknown(name, error) from None
            return {"job": job_line(found[0].state()), "now": 0}

    def explain_all(self) -> Json:
        """Returns all waiting jobs with their reasons."""
        answer = self._ask_listing("/v1/why", {})
        return {**answer, "jobs": self._of_namespace(answer["jobs"])}

    def history(self, **filters: Any) -> list[Json]:
        """Returns jobs that have ended, latest first."""
        try:
            return self._listing("/v1/history", filters)
        except ApiError as error:
            self._fall_back_to_objects(error)
        lines = _stored_lines(self.finder, self._listed_namespace, {"all": "1"})
        wanted = [line for line in lines if line["finished_at"] is not None and _matches(line, filters)]
        return sorted(wanted, key=lambda line: -line["finished_at"])[: int(filters.get("limit") or _DEFAULT_LIMIT)]

    def _listing(self, path: str, filters: Json) -> list[Json]:
        return self._of_namespace(self._ask_listing(path, filters)["jobs"])

    def _ask_listing(self, path: str, filters: Json) -> Json:
        """Asks the operator for jobs of the namespace; of the user's own if the user may not list all."""
        try:
            return self.operator.get(path, filters, self._listed_namespace)
        except ApiError as error:
            if error.code is not ErrorCode.NOT_ALLOWED or self._listed_namespace is not None:
                raise
        own = self.finder.namespace
        answer = self.operator.get(path, filters, own)
        print(f"windlass: showing namespace {own} only: you may not list the jobs of others", file=sys.stderr)
        self._listed_namespace = own
        return answer

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
        several = error.code is ErrorCode.NO_SUCH_JOB and error.fix
        return error if several else self.finder.unknown_error(name)

    def _of_namespace(self, lines: Iterable[Json]) -> list[Json]:
        if self._listed_namespace is None:
            return list(lines)
        return [line for line in lines if line["id"].startswith(f"{self._listed_namespace}/")]


def _stored_lines(finder: JobFinder, namespace: str | None, filters: Mapping[str, Any]) -> list[Json]:
    """Returns jobs by their objects: jobs that hold nodes, waiting jobs, others, ended jobs."""
    wanted, limit = parse_filter(filters), int(filters.get("limit") or _DEFAULT_LIMIT)
    everything = finder.all(namespace)
    states = [each.state() for each in everything]
    chosen = [s for s in states if (wanted.ended or s.status.phase not in TERMINAL) and wanted.has(s)]
    fields = parse_fields(str(filters.get("fields") or ""))
    lines = [job_line(state, NOT_PENDING, fields) for state in sorted(chosen, key=listing_order)]
    return lines[:limit]


def _stored_details(finder: JobFinder, found: JobObject) -> Json:
    """Returns the details of a job without the operator: its state and the nodes of its pods."""
    state = found.state()
    pods = finder.pods(found)
    line = job_line(state)
    details = views.job_details(state, NOT_PENDING, pod_tasks(found, pods), ())
    return {**details, **line, "nodes": line["nodes"] or pod_nodes(pods)}


def _is_queued(found: JobObject) -> bool:
    """Whether a job waits; sorts a waiting member of an array last."""
    return found.state().status.phase is Phase.QUEUED


def _matches(line: Json, filters: Mapping[str, Any]) -> bool:
    """Whether an ended job matches the filters."""
    fits = all(not filters.get(key) or line[key] == filters[key] for key in ("name", "user"))
    return fits and line["finished_at"] >= int(filters.get("since") or 0)
