"""HTTP application of the operator: probes and metrics on every replica, the API on the leader."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.server.app import query_application
from windlass.server.errors import HTTP_STATUS, ApiError, ErrorCode
from windlass.server.operator.cluster_job_records import ClusterJobRecords
from windlass.server.operator.metrics import CONTENT_TYPE
from windlass.server.service import Service


def operator_application(
    *,
    metrics: Callable[[], bytes],
    unready: Callable[[], str],
    leader: Callable[[], str],
    api: Callable[[], ASGIApp | None],
) -> Starlette:
    """The ASGI application of a replica.

    `unready`: returns why this replica cannot lead, empty if it can. `leader`: returns the identity of the leader.
    `api`: returns None on a replica that follows; its answer names the leader.
    """

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")  # the controller runs in the loop that answers this

    async def readyz(_request: Request) -> Response:
        reason = unready()
        return PlainTextResponse(f"{reason or 'ok'}\n", 503 if reason else 200)

    async def show(_request: Request) -> Response:
        return Response(metrics(), media_type=CONTENT_TYPE)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await (api() or _refer_to(leader()))(scope, receive, send)

    probes = [("/healthz", healthz), ("/readyz", readyz), ("/metrics", show)]
    return Starlette(routes=[*(Route(path, what, methods=["GET"]) for path, what in probes), Mount("/", answer)])


def cluster_api(service: Service, records: ClusterJobRecords) -> Starlette:
    """The queries of `server.app` for a cluster, and the recorded logs. Users change objects under their own rights."""

    async def logs(request: Request) -> Response:
        ids = await service.lookup.ids(request.path_params["name"])
        found = [{"job": job_id, **asdict(each)} for job_id in ids for each in await records.logs(job_id)]
        return _json({"logs": found})

    return query_application(service, [Route("/v1/jobs/{name:path}/logs", logs, methods=["GET"])])


def _refer_to(leader: str) -> Response:
    """The answer of a replica that follows."""
    fix = f"ask {leader}, which leads" if leader else "ask again in a few seconds: there is no leader yet"
    error = ApiError(ErrorCode.NO_DAEMON, "this replica of the operator does not lead", fix)
    return _json({**error.as_json(), "leader": leader}, HTTP_STATUS[error.code])


def _json(content: object, status: int = 200) -> Response:
    return Response(json.dumps(content, ensure_ascii=False).encode(), status, media_type="application/json")
