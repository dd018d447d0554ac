"""HTTP applications of the operator: probes and metrics on every replica, queries without authentication on request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.server.app import json_response, query_application
from windlass.server.operator.cluster_job_records import ClusterJobRecords
from windlass.server.operator.queries.app import refer_to
from windlass.server.service import Service
from windlass.telemetry.exposition import CONTENT_TYPE


def probe_application(metrics: Callable[[], bytes] | None, unready: Callable[[], str]) -> Starlette:
    """Probes, and metrics unless None.

    `unready`: returns why this replica cannot lead, empty if it can.
    """

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")  # the controller runs in the loop that answers this

    async def readyz(_request: Request) -> Response:
        reason = unready()
        return PlainTextResponse(f"{reason or 'ok'}\n", 503 if reason else 200)

    async def show(_request: Request) -> Response:
        if metrics is None:
            return PlainTextResponse("the metrics are on the port for queries, for clients with a token\n", 403)
        return Response(metrics(), media_type=CONTENT_TYPE)

    probes = [("/healthz", healthz), ("/readyz", readyz), ("/metrics", show)]
    return Starlette(routes=[Route(path, what, methods=["GET"]) for path, what in probes])


def with_open_queries(probes: Starlette, leader: Callable[[], str], api: Callable[[], ASGIApp | None]) -> Starlette:
    """The probes, and queries without authentication: for a replica on the user's own machine.

    `leader`: returns the identity of the leader. `api`: returns None on a replica that follows.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await (api() or refer_to(leader()))(scope, receive, send)

    return Starlette(routes=[*probes.routes, Mount("/", answer)])


def cluster_api(service: Service, records: ClusterJobRecords) -> Starlette:
    """The queries of `server.app` for a cluster, and the recorded logs. Users change objects under their own rights."""

    async def logs(request: Request) -> Response:
        ids = await service.lookup.ids(request.path_params["name"])
        found = [{"job": job_id, **asdict(each)} for job_id in ids for each in await records.logs(job_id)]
        return json_response({"logs": found})

    return query_application(service, [Route("/v1/jobs/{name:path}/logs", logs, methods=["GET"])])
