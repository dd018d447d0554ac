"""Queries that only the operator can answer: nodes, queues, shares, reservations, stored logs, the scheduler's state.

Part of `client.ClusterClient`; the queries about jobs, which the jobs' objects answer too, are in `job_queries`.
"""

from __future__ import annotations

from typing import Any

from windlass.cli.kubernetes.operator_client import OperatorClient

Json = dict[str, Any]


class OperatorQueries:
    """Answers of the operator's API. Every call raises ApiError."""

    def __init__(self, operator: OperatorClient) -> None:
        self.operator = operator

    def ping(self) -> Json:
        """Returns the state of the operator and of its cluster."""
        return self.operator.get("/v1/ping")

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

    def stored_logs(self, job_id: str) -> list[Json]:
        """Returns the log ends of members whose pods were deleted, as the operator has stored them."""
        return list(self.operator.get(f"/v1/jobs/{job_id}/logs")["logs"])

    def unplaceable_reason(self, job_id: str) -> str:
        """Returns why a waiting job can never run on the cluster as it is, by the operator; "" if it can."""
        return str(self.operator.get(f"/v1/prospects/{job_id}").get("never", ""))
