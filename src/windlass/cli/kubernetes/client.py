"""A cluster in the place of a daemon: the calls of `server.client.Client`, with the same answers."""

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
_SILENT = (Code.NO_DAEMON, Code.NOT_ALLOWED)
"""Errors after which the objects are asked instead of the operator."""
_LISTED = 1_000


class ClusterClient:
    """One cluster, as one user, in one namespace. Every call raises ApiError.

    What only the operator knows (positions, reasons, shares) is asked of it. Where it does not answer the objects tell
    how jobs stand, and a line on stderr says so.
    """

    kind = "up"
    """Jobs outlive whoever hands them in."""
    succeeded = False
    strict = False
    """Whether objects are refused that say what their definition in this cluster does not know."""

    def __init__(self, reach: ApiSession, namespace: str, *, chosen: bool, operator: str = "") -> None:
        self.reach = reach
        self.namespace = namespace
        self.operator = OperatorClient(reach, operator)
        self.finder = JobFinder(reach, namespace)
        self._chosen = chosen
        """The user has named the namespace: listings are of it alone."""
        self._told = False
        self._seen: dict[str, ReportedState] = {}

    @classmethod
    def at(cls, context: str, namespace: str = "") -> ClusterClient:
        """The cluster of a context ("": the current one), its settings as configured. Raises ApiError."""
        reach, config = ApiSession.to(context), configured()
        chosen = namespace or config.namespace
        operator = os.environ.get("WINDLASS_OPERATOR") or config.operator
        return cls(reach, chosen or reach.access.namespace, chosen=bool(chosen), operator=operator)

    # --- asking ------------------------------------------------------------------------------------

    def ping(self) -> Json:
        """Who decides, and for what cluster."""
        return self.operator.get("/v1/ping")

    def jobs(self, **filters: Any) -> list[Json]:
        """Jobs as lines of a listing, next first; of the namespace, if one was named."""
        try:
            lines = self._of_namespace(self.operator.get("/v1/jobs", filters)["jobs"])
        except ApiError as error:
            self._go_on_alone(error)
            lines = self._lines(filters)
        return lines

    def job(self, name: str) -> Json:
        """A job's whole story; of an array, its members' lines."""
        found = self.finder.find(name)
        if len(found) > 1:
            return {"id": name, "members": [views.job_line(each.state()) for each in found]}
        try:
            return self.operator.get(f"/v1/jobs/{self._id(name, found)}")
        except ApiError as error:
            if error.code is not Code.NO_SUCH_JOB:
                self._go_on_alone(error)
            if not found:
                raise self._unknown(name, error) from None
            return self._story(found[0])  # its object may be newer than what the operator has seen

    def kept_logs(self, job_id: str) -> list[Json]:
        """The ends of the logs of members whose pods are gone, as the operator has kept them."""
        return list(self.operator.get(f"/v1/jobs/{job_id}/logs")["logs"])

    def ranks(self, job: JobObject) -> list[PodRank]:
        """The pods of a job, by generation and rank."""
        return ranks_of_pods(job, self.finder.pods(job))

    def running(self, name: str, rank: int) -> PodRank:
        """The pod that is a rank now."""
        found = self.finder.the(name)
        if len(found) > 1:
            raise ApiError(Code.BAD_REQUEST, f"{name} is an array", f"name one of its jobs: {found[0].id}")
        living = [pod for pod in self.ranks(found[0]) if pod.phase == "Running" and pod.rank == rank]
        if not living:
            raise ApiError(Code.WRONG_STATE, f"{found[0].id} has no pod of rank {rank} that runs")
        return living[-1]

    def why(self, name: str, what_if: str = "") -> Json:
        """Why a job waits, with counts; `what_if`: as if it had asked for that."""
        found = sorted(self.finder.find(name), key=_waits_last)[-1:]
        try:
            return self.operator.get(f"/v1/jobs/{self._id(name, found)}/why", {"what_if": what_if})
        except ApiError as error:
            if what_if:
                raise
            if error.code is not Code.NO_SUCH_JOB:
                self._go_on_alone(error)
            if not found:
                raise self._unknown(name, error) from None
            return {"job": views.job_line(found[0].state()), "now": 0}

    def never(self, job_id: str) -> str:
        """Why a job that waits can never run on the cluster as it is, by the operator's word; "" if it can."""
        return str(self.operator.get(f"/v1/prospects/{job_id}").get("never", ""))

    def why_all(self) -> Json:
        """All that wait, each with its reason."""
        answer = self.operator.get("/v1/why")
        return {**answer, "jobs": self._of_namespace(answer["jobs"])}

    def history(self, **filters: Any) -> list[Json]:
        """Jobs that have ended, latest first."""
        try:
            return self._of_namespace(self.operator.get("/v1/history", filters)["jobs"])
        except ApiError as error:
            self._go_on_alone(error)
        ended = [line for line in self._lines({"all": "1"}) if line["finished_at"] is not None]
        wanted = [line for line in ended if _is(line, filters)]
        return sorted(wanted, key=lambda line: -line["finished_at"])[: int(filters.get("limit") or _LISTED)]

    def nodes(self) -> list[Json]:
        """The nodes, and who holds what on them."""
        return list(self.operator.get("/v1/nodes")["nodes"])

    def queues(self) -> list[Json]:
        """The queues, with quota and use."""
        return list(self.operator.get("/v1/queues")["queues"])

    def shares(self) -> Json:
        """The queues: what each should have, and has."""
        return self.operator.get("/v1/shares")

    def snapshot(self, *, planned: bool = False) -> Json:
        """Everything the scheduler knows, now or (`planned`) when it last decided."""
        return self.operator.get("/v1/snapshot", {"planned": "1"} if planned else None)

    def reservations(self) -> list[Json]:
        """What is reserved, soonest first."""
        return list(self.operator.get("/v1/reservations")["reservations"])

    # --- telling -----------------------------------------------------------------------------------

    def submit(self, submissions: Sequence[Any], **_facts: Any) -> list[str]:
        """Make the objects of jobs, all or none. Returns their ids in order."""
        return job_ids(create_objects(self.reach, submissions, strict=self.strict))

    def act(self, verb: str, name: str, **how: Any) -> Json:
        """Cancel, suspend or resume a job (or a whole array)."""
        return apply_action(self.reach, self.finder, JobAction(verb, **how), [name])

    def act_on_all(self, verb: str, names: Sequence[str], **how: Any) -> Json:
        """The same for several: `jobs` to which it was done, and `errors`."""
        errors: list[Json] = []
        done: list[Json] = []
        for name in names:
            try:
                done += self.act(verb, name, **how)["jobs"]
            except ApiError as error:
                errors.append(error.as_json()["error"])
        return {"jobs": done, "errors": errors}

    def reserve(self, **asked: Any) -> Json:
        """Reserve nodes: an object of the cluster, which takes the right to make one."""
        return reserve(self.reach, self.operator, asked)

    def unreserve(self, name: str) -> Json:
        """Give the nodes of a reservation back."""
        return unreserve(self.reach, name)

    def follow(self, names: str, after: int = 0) -> JobEvents:  # noqa: ARG002 - objects tell how things stand
        """What happens to jobs (several by commas) from now on, and how they stand."""
        found = [each for name in names.split(",") for each in self.finder.find(name)]
        return JobEvents(self.reach, self.operator, found, self._seen)

    def knock(self) -> None:
        """Raises ApiError if the API server does not answer."""
        self.reach.do(self.reach.connection.request("GET", "/version", within=2))

    def close(self) -> None:
        """Leave the cluster."""
        self.reach.close()

    # --- alone -------------------------------------------------------------------------------------

    def _go_on_alone(self, error: ApiError) -> None:
        """Say once that the objects tell, because the operator does not. Raises what is another error."""
        if error.code not in _SILENT:
            raise error
        if not self._told:
            print(f"windlass: as the objects tell; {error.message}", file=sys.stderr)
        self._told = True

    def _id(self, name: str, found: Sequence[JobObject]) -> str:
        """What the operator calls it, also where its object is gone."""
        return found[0].id if found else self.finder.id_of(name)

    def _unknown(self, name: str, error: ApiError) -> ApiError:
        """Of a name that means nothing here; one that means several jobs of the past is told as the operator does."""
        several = error.code is Code.NO_SUCH_JOB and error.fix
        return error if several else self.finder.unknown(name)

    def _of_namespace(self, lines: Iterable[Json]) -> list[Json]:
        if not self._chosen:
            return list(lines)
        return [line for line in lines if line["id"].startswith(f"{self.namespace}/")]

    def _lines(self, filters: Mapping[str, Any]) -> list[Json]:
        """Jobs as their objects tell: those that hold nodes, those that wait, others, those that have ended."""
        wanted, limit = parse_filter(filters), int(filters.get("limit") or _LISTED)
        everything = self.finder.all(None if not self._chosen else self.namespace)
        states = [each.state() for each in everything]
        chosen = [s for s in states if (wanted.ended or s.status.phase not in TERMINAL) and wanted.has(s)]
        lines = [views.job_line(state) for state in sorted(chosen, key=listing_order)]
        return lines[:limit]

    def _story(self, found: JobObject) -> Json:
        """A job's story without the operator: how it stands, and where its pods are."""
        state = found.state()
        pods = self.finder.pods(found)
        line = views.job_line(state)
        told = views.job_details(state, views.NOT_PENDING, pod_tasks(found, pods), ())
        return {**told, **line, "nodes": line["nodes"] or pod_nodes(pods)}


def _waits_last(found: JobObject) -> bool:
    """Of an array it is one that waits which is asked about."""
    return found.state().status.phase is Phase.QUEUED


def _is(line: Json, filters: Mapping[str, Any]) -> bool:
    """Whether a job that has ended is one of those asked for."""
    fits = all(not filters.get(key) or line[key] == filters[key] for key in ("name", "user"))
    return fits and line["finished_at"] >= int(filters.get("since") or 0)
