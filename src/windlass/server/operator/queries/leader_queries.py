"""Answers of the leader to queries about one namespace, about all, and about the cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from windlass.server.errors import ApiError, ErrorCode
from windlass.server.job_filter import is_in_namespace
from windlass.server.operator.cluster_job_records import ClusterJobRecords
from windlass.server.service import Service

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LeaderQueries:
    """The queries of a leader. Methods raise ApiError, BackendError."""

    service: Service
    records: ClusterJobRecords

    def namespaces(self) -> Collection[str]:
        """Namespaces of all jobs that an answer may name."""
        return self.service.namespaces()

    async def listing(self, resource: str, namespace: str, filters: Mapping[str, str]) -> Json:
        """The lines of `jobs`, `history` or `reasons`; of one namespace, or "" for all."""
        if resource == "reasons":
            return await self.service.scheduler.explain_all(namespace)
        query = self.service.jobs if resource == "jobs" else self.service.history
        return {"jobs": await query({**filters, "namespace": namespace})}

    async def job(self, part: str, namespace: str, name: str, filters: Mapping[str, str]) -> Json:
        """Details of one job of a namespace, or their part `why`, `log` or `prospect`."""
        ids = await self.service.lookup.ids(f"{namespace}/{name}")
        if not all(is_in_namespace(each, namespace) for each in ids):  # a kind may have the name of a namespace
            raise ApiError(ErrorCode.NO_SUCH_JOB, f"no job of namespace {namespace} is called {name[:200]!r}")
        wanted = ids[0] if len(ids) == 1 else f"{namespace}/{name}"
        match part:
            case "":
                return await self.service.job(wanted)
            case "why":
                return await self.service.scheduler.explain(wanted, filters.get("what_if", ""))
            case "prospect":
                return await self.service.scheduler.prospect(wanted)
        return {"logs": [{"job": each, **asdict(log)} for each in ids for log in await self.records.logs(each)]}

    async def cluster(self, resource: str) -> Json:
        """`status`, `nodes`, `queues`, `shares` or `reservations` of the cluster."""
        answers: Mapping[str, Callable[[], Json]] = {
            "status": self.service.ping,
            "nodes": lambda: {"nodes": self.service.nodes()},
            "queues": lambda: {"queues": self.service.queues()},
            "shares": self.service.scheduler.shares,
            "reservations": lambda: {"reservations": self.service.scheduler.reservations()},
        }
        return answers[resource]()

    async def snapshot(self, *, planned: bool) -> Json:
        """The scheduler's input now; `planned`: the input and the decisions of the last plan."""
        return await self.service.scheduler.snapshot(planned=planned)
