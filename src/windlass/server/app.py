"""HTTP application of the API: paths, methods and bodies. `service` and `actions` implement the calls."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from windlass.backends.port import BackendError
from windlass.server.actions import JOB_ACTIONS, Actions
from windlass.server.errors import HTTP_STATUS, ApiError, ErrorCode
from windlass.server.job_update import read_update
from windlass.server.service import Service
from windlass.server.submission_request import read_submissions

_MAX_BODY = 64 << 20
"""Bytes of a request. A valid job file of 10 MB passes; an endless body does not."""
_LAST_EVENT = 2**63 - 1
"""Highest event number in the database."""


def application(service: Service, actions: Actions) -> Starlette:
    """The ASGI application of the API."""
    return _application([*_query_routes(service), *_action_routes(actions)])


def query_application(service: Service, more: Sequence[Route] = ()) -> Starlette:
    """The queries of the API, without its actions. `more`: routes that take precedence."""
    return _application([*more, *_query_routes(service)])


def _application(routes: Sequence[Route]) -> Starlette:
    handlers: dict[Any, Callable[..., Any]] = {
        ApiError: _refused,
        BackendError: _unusable,
        HTTPException: _unknown,
        Exception: _broken,
    }
    return Starlette(routes=routes, exception_handlers=handlers)


def _query_routes(service: Service) -> list[Route]:
    query = _Queries(service)
    handlers = {
        "/v1/ping": query.ping,
        "/v1/jobs": query.jobs,
        "/v1/jobs/{name:path}/why": query.explain,
        "/v1/jobs/{name:path}/metrics": query.metrics,
        "/v1/jobs/{name:path}": query.job,  # ids of a cluster contain slashes
        "/v1/prospects/{name:path}": query.prospect,
        "/v1/why": query.explain_all,
        "/v1/shares": query.shares,
        "/v1/snapshot": query.snapshot,
        "/v1/reservations": query.reservations,
        "/v1/nodes": query.nodes,
        "/v1/queues": query.queues,
        "/v1/history": query.history,
        "/v1/events": query.events,
    }
    return [Route(path, handler, methods=["GET"]) for path, handler in handlers.items()]


def _action_routes(actions: Actions) -> list[Route]:
    action = _Actions(actions)
    return [
        Route("/v1/jobs", action.submit, methods=["POST"]),
        Route("/v1/jobs/{name:path}/update", action.update, methods=["POST"]),
        Route("/v1/jobs/{name:path}/{verb}", action.act, methods=["POST"]),
        Route("/v1/schedules", action.schedules, methods=["GET"]),
        Route("/v1/schedules/{name}/run", action.run_schedule, methods=["POST"]),
        Route("/v1/reservations", action.reserve, methods=["POST"]),
        Route("/v1/reservations/{name}", action.unreserve, methods=["DELETE"]),
        *(Route(f"/v1/{verb}", action.act_on_all, methods=["POST"]) for verb in JOB_ACTIONS),
        Route("/v1/ui", action.open_dashboard, methods=["POST"]),
        Route("/v1/down", action.down, methods=["POST"]),
    ]


class _Queries:
    """One method for each route that reads: takes the parameters, calls the service, writes the answer."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def ping(self, _request: Request) -> Response:
        return json_response(self._service.ping())

    async def jobs(self, request: Request) -> Response:
        return json_response({"jobs": await self._service.jobs(dict(request.query_params))})

    async def job(self, request: Request) -> Response:
        return json_response(await self._service.job(request.path_params["name"]))

    async def explain(self, request: Request) -> Response:
        what_if = request.query_params.get("what_if", "")
        if not what_if and (schedule := self._service.find_schedule(request.path_params["name"])):
            return json_response({"schedule": schedule})
        return json_response(await self._service.scheduler.explain(request.path_params["name"], what_if))

    async def metrics(self, request: Request) -> Response:
        from windlass.server.telemetry_records.queries import read_span  # noqa: PLC0415 - rarely needed

        span = read_span(request.query_params)
        return json_response(await self._service.metrics(request.path_params["name"], span))

    async def prospect(self, request: Request) -> Response:
        return json_response(await self._service.scheduler.prospect(request.path_params["name"]))

    async def explain_all(self, _request: Request) -> Response:
        return json_response(await self._service.scheduler.explain_all())

    async def shares(self, _request: Request) -> Response:
        return json_response(self._service.scheduler.shares())

    async def snapshot(self, request: Request) -> Response:
        return json_response(await self._service.scheduler.snapshot(planned="planned" in request.query_params))

    async def reservations(self, _request: Request) -> Response:
        return json_response({"reservations": self._service.scheduler.reservations()})

    async def nodes(self, _request: Request) -> Response:
        return json_response({"nodes": self._service.nodes()})

    async def queues(self, _request: Request) -> Response:
        return json_response({"queues": self._service.queues()})

    async def history(self, request: Request) -> Response:
        return json_response({"jobs": await self._service.history(dict(request.query_params))})

    async def events(self, request: Request) -> Response:
        after = request.headers.get("last-event-id", "0")
        if not after.isdecimal() or len(after) > 19 or int(after) > _LAST_EVENT:
            raise ApiError(ErrorCode.BAD_REQUEST, f"Last-Event-ID is not the number of an event: {after[:40]}")
        events = await self._service.events.follow(request.query_params.get("job", ""), int(after))
        return StreamingResponse(_sse(events), media_type="text/event-stream")


class _Actions:
    """One method for each route that changes something: reads the body, calls the action, writes the answer."""

    def __init__(self, actions: Actions) -> None:
        self._actions = actions

    async def submit(self, request: Request) -> Response:
        return json_response({"ids": await self._actions.submit(read_submissions(await _body(request)))}, status=201)

    async def schedules(self, _request: Request) -> Response:
        return json_response({"schedules": await self._actions.schedules()})

    async def run_schedule(self, request: Request) -> Response:
        return json_response({"ids": await self._actions.run_schedule(request.path_params["name"])}, status=201)

    async def reserve(self, request: Request) -> Response:
        return json_response(await self._actions.reserve(await _object(request)), status=201)

    async def unreserve(self, request: Request) -> Response:
        return json_response(await self._actions.unreserve(request.path_params["name"]))

    async def act(self, request: Request) -> Response:
        parameters = request.path_params
        return json_response(await self._actions.act(parameters["verb"], parameters["name"], await _object(request)))

    async def update(self, request: Request) -> Response:
        update = read_update(await _object(request))
        return json_response(await self._actions.update(request.path_params["name"], update))

    async def act_on_all(self, request: Request) -> Response:
        verb = request.url.path.rpartition("/")[2]
        return json_response(await self._actions.act_on_all(verb, await _object(request)))

    async def open_dashboard(self, request: Request) -> Response:
        return json_response(await self._actions.open_dashboard(await _object(request)), status=201)

    async def down(self, request: Request) -> Response:
        return json_response(await self._actions.down(await _object(request)))


async def _sse(events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    """Server-sent events in the format of the HTML standard."""
    yield b": welcome\n\n"
    async for event in events:
        yield _event(event)


def _event(event: dict[str, Any]) -> bytes:
    if event["type"] == "quiet":
        return b": still here\n\n"
    number = f"id: {event['number']}\n" if event.get("number") else ""
    return f"{number}event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


async def _body(request: Request) -> Any:
    """The body as JSON; an empty one is an empty object. Raises ApiError."""
    raw = bytearray()
    async for part in request.stream():
        raw += part
        if len(raw) > _MAX_BODY:
            raise ApiError(
                ErrorCode.BAD_REQUEST, f"the request is larger than {_MAX_BODY >> 20} MiB", "submit in parts"
            )
    try:
        return json.loads(raw or b"{}")
    except (ValueError, RecursionError) as error:
        raise ApiError(ErrorCode.BAD_REQUEST, f"the request is not JSON: {error}") from None


async def _object(request: Request) -> dict[str, Any]:
    """The body as a JSON object. Raises ApiError."""
    body = await _body(request)
    if not isinstance(body, dict):
        raise ApiError(ErrorCode.BAD_REQUEST, "the request is not a JSON object")
    return body


def json_response(content: object, status: int = 200) -> Response:
    """A response with a JSON body, in UTF-8."""
    return Response(msgspec.json.encode(content), status, media_type="application/json")


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)  # noqa: S101 - registered for this type
    return json_response(error.as_json(), HTTP_STATUS[error.code])


async def _unusable(request: Request, error: Exception) -> Response:
    return await _refused(request, ApiError(ErrorCode.DISK, str(error)))


async def _unknown(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    what = f"{request.method} {request.url.path} is not part of this API"
    return json_response(
        ApiError(ErrorCode.BAD_REQUEST, what, "client and daemon may differ in version: windlass version").as_json(),
        status,
    )


async def _broken(request: Request, error: Exception) -> Response:
    return await _refused(
        request, ApiError(ErrorCode.INTERNAL, f"{type(error).__name__}: {error}", "see the daemon's log")
    )
