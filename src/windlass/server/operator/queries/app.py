"""HTTP application of the port for queries: an aggregated API of Kubernetes, and the protected metrics.

Every answer is for one user. The API server has authenticated the user and checked the right by the path; both are
checked again, because clients with a token may connect too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.backends.kubernetes.client.reviews import AccessRight, User
from windlass.backends.kubernetes.status.redaction import named_namespaces, redact
from windlass.backends.port import BackendError
from windlass.jobs.kubernetes.query_api import API_SERVICE, GROUP, OF_CLUSTER, OF_JOBS, PREFIX, SNAPSHOTS, VERSION
from windlass.server.app import json_response
from windlass.server.errors import HTTP_STATUS, ApiError, ErrorCode
from windlass.server.operator.queries.authentication import Authenticator
from windlass.server.operator.queries.authorization import Authorizer, query_right
from windlass.server.operator.queries.leader_queries import LeaderQueries
from windlass.telemetry.exposition import CONTENT_TYPE

Json = dict[str, Any]
_LISTED = ("jobs", "history", "reasons")
_CONCURRENT = 4
"""Maximum number of answers that are computed at once: users cannot take all threads from the controller."""
NO_ANSWER = "the API server or the database of history does not answer; the operator's log has the reason"
_PARTS = ("why", "log", "prospect")
Produce = Callable[[LeaderQueries], Awaitable[Json]]


@dataclass(frozen=True, slots=True)
class QueryServer:
    """One method for each kind of path. `leading` returns None on a replica that follows; `leader` names the leader.

    `report` is told of errors whose text users do not get.
    """

    authenticator: Authenticator
    authorizer: Authorizer
    leading: Callable[[], LeaderQueries | None]
    leader: Callable[[], str]
    metrics: Callable[[], bytes]
    report: Callable[[str], None]
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_CONCURRENT))

    def application(self) -> Starlette:
        """The ASGI application."""
        namespaced = f"{PREFIX}/namespaces/{{namespace}}"
        paths = {
            "/metrics": self.show_metrics,
            PREFIX: _show_resources,
            f"{PREFIX}/{SNAPSHOTS}/current": self.show_snapshot,
            f"{PREFIX}/{{resource}}": self.show_cluster,
            f"{namespaced}/{{resource}}": self.show_listing,
            f"{namespaced}/jobs/{{name}}": self.show_job,
            f"{namespaced}/jobs/{{name}}/{{part}}": self.show_job,
        }
        errors: dict[Any, Callable[..., Any]] = {
            ApiError: _refused,
            BackendError: self._report_error,
            HTTPException: _unknown,
        }
        return Starlette(
            routes=[Route(path, handler, methods=["GET"]) for path, handler in paths.items()],
            exception_handlers=errors,
        )

    async def show_metrics(self, request: Request) -> Response:
        """Metrics, for users who may get /metrics."""
        user = await self.authenticator.identify(request.scope)
        await self.authorizer.require(user, AccessRight("get", path="/metrics"))
        return Response(self.metrics(), media_type=CONTENT_TYPE)

    async def show_cluster(self, request: Request) -> Response:
        """Facts of the cluster, or the jobs of all namespaces."""
        resource, filters = request.path_params["resource"], dict(request.query_params)
        access = query_right("list", resource)
        if resource in _LISTED:
            return await self._answer(request, access, lambda leader: leader.listing(resource, "", filters))
        if resource in OF_CLUSTER:
            return await self._answer(request, access, lambda leader: leader.cluster(resource))
        raise HTTPException(404)

    async def show_snapshot(self, request: Request) -> Response:
        """The scheduler's state, with all jobs."""
        planned = "planned" in request.query_params
        access = query_right("get", SNAPSHOTS, name="current")
        return await self._answer(request, access, lambda leader: leader.snapshot(planned=planned))

    async def show_listing(self, request: Request) -> Response:
        """The jobs of one namespace."""
        namespace, resource = request.path_params["namespace"], request.path_params["resource"]
        if resource not in _LISTED:
            raise HTTPException(404)
        filters = dict(request.query_params)
        access = query_right("list", resource, namespace)
        return await self._answer(request, access, lambda leader: leader.listing(resource, namespace, filters))

    async def show_job(self, request: Request) -> Response:
        """One job, or a part of it."""
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        part, filters = request.path_params.get("part", ""), dict(request.query_params)
        if part not in ("", *_PARTS):
            raise HTTPException(404)
        access = query_right("get", f"jobs/{part}" if part else "jobs", namespace, name)
        return await self._answer(request, access, lambda leader: leader.job(part, namespace, name, filters))

    async def _answer(self, request: Request, access: AccessRight, produce: Produce) -> Response:
        """The answer to a user who has the right, without names of namespaces whose jobs the user may not list."""
        user = await self.authenticator.identify(request.scope)
        await self.authorizer.require(user, access)
        leading = self.leading()
        if leading is None:
            return refer_to(self.leader())
        try:
            async with self._turns:
                status, answer = 200, await produce(leading)
        except ApiError as error:
            status, answer = HTTP_STATUS[error.code], error.as_json()
        return json_response(await self._redacted(user, leading, answer), status)

    async def _report_error(self, request: Request, error: BackendError) -> Response:
        """A neutral answer: the text of an error may name jobs and servers, and the user may be unknown."""
        self.report(f"a query cannot be answered: {error}")
        return await _refused(request, ApiError(ErrorCode.INTERNAL, NO_ANSWER, "try again in a minute"))

    async def _redacted(self, user: User, leading: LeaderQueries, answer: Json) -> Json:
        if await self.authorizer.allows(user, query_right("list", "jobs")):
            return answer
        named = await asyncio.to_thread(named_namespaces, answer, leading.namespaces())
        hidden = await self.authorizer.hidden(user, named)
        return dict(await asyncio.to_thread(redact, answer, hidden))


async def _show_resources(_request: Request) -> Response:
    """The resources of the API, which the API server and kubectl read. They are no secret.

    kubectl finds a resource by its kind: each has its own.
    """
    resources = [
        {
            "name": each,
            "singularName": "",
            "namespaced": each in OF_JOBS,
            "kind": f"{each.partition('/')[0].title()}Query",
            "verbs": ["get", "list"],
        }
        for each in (*OF_JOBS, *OF_CLUSTER, SNAPSHOTS)
    ]
    about = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{VERSION}"}
    return json_response({**about, "resources": resources})


def refer_to(leader: str) -> Response:
    """The answer of a replica that follows."""
    fix = f"ask {leader}, which leads" if leader else "ask again in a few seconds: there is no leader yet"
    error = ApiError(ErrorCode.NO_DAEMON, "this replica of the operator does not lead", fix)
    return json_response({**error.as_json(), "leader": leader}, HTTP_STATUS[error.code])


async def _refused(_request: Request, error: ApiError) -> Response:
    return json_response(error.as_json(), HTTP_STATUS[error.code])


async def _unknown(_request: Request, error: HTTPException) -> Response:
    what = ApiError(ErrorCode.BAD_REQUEST, f"this is no query of {API_SERVICE}", "see the reference of the API")
    return json_response(what.as_json(), error.status_code)
