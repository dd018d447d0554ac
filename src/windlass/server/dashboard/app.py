"""HTTP application of the dashboard: pages, their files, views as JSON, the stream of versions, and actions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from windlass.backends.port import BackendError
from windlass.server.app import json_response
from windlass.server.dashboard.guard import SESSION
from windlass.server.dashboard.page_files import accepts_gzip, asset_response, index_response
from windlass.server.dashboard.sessions import Session
from windlass.server.dashboard.simulation import Simulation
from windlass.server.dashboard.state_version import MAX_FOLLOWERS, StateVersion
from windlass.server.dashboard.view import View
from windlass.server.dashboard.view_cache import CachedAnswer, ViewCache
from windlass.server.errors import HTTP_STATUS, ApiError, ErrorCode

Json = dict[str, Any]
_PAGES = (
    *("/", "/queue", "/nodes", "/share", "/history", "/simulator", "/jobs/{name:path}"),
    *("/workshop", "/workshop/{name:path}"),
)
_NO_PAGE = '<!doctype html><html lang="en"><title>Windlass</title><p>There is no such page. <a href="/">Overview</a>'
_RETRY_MS = 1_000
_MAX_PATH = 2_048
"""Maximum characters of the path and the parameters of a view."""
_MAX_BODY = 1 << 16


class Pages(Protocol):
    """The pages of one visitor: views, output of jobs, and changes. Methods raise ApiError, BackendError."""

    @property
    def audience(self) -> str:
        """Key of what the visitor may read: visitors with the same key get the same answers."""

    @property
    def visitor(self) -> str:
        """Key of the visitor for the limit of its event streams."""

    @property
    def simulation(self) -> Simulation:
        """The what-if simulation. Raises ApiError if the visitor may not use one."""

    async def about(self) -> Json:
        """Version and cluster, for the head of every page."""

    async def find(self, view: str, name: str, filters: Mapping[str, str]) -> View | None:
        """A view by the parameters of a request; None if there is no such view."""

    async def log(self, name: str, filters: Mapping[str, str]) -> Json:
        """A piece of a job's output."""

    async def act(self, verb: str, name: str, body: Mapping[str, Any]) -> Json:
        """Changes a job."""

    async def lasts(self) -> bool:
        """Whether the visitor is still signed in, and may read what it could when its page was opened."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One method for each kind of path. `pages`: returns the pages of a visitor by its session."""

    pages: Callable[[Session], Awaitable[Pages]]
    version: StateVersion
    cache: ViewCache = field(default_factory=ViewCache)
    explain: Callable[[BackendError], str] = str
    """Returns what a visitor is told about an error of the backend."""
    streams_each: int = MAX_FOLLOWERS
    """Maximum number of event streams of one visitor."""
    _streams: Counter[str] = field(default_factory=Counter)

    def application(self) -> Starlette:
        """The ASGI application, without the guard."""
        get = {
            "/assets/{path:path}": _asset,
            "/api/session": self.session,
            "/api/stream": self.stream,
            "/api/simulation": self.simulation,
            "/api/simulation/report": self.simulation_report,
            "/api/jobs/{name:path}/log": self.log,
            "/api/{view}": self.view,
            "/api/{view}/{name:path}": self.view,
            **dict.fromkeys(_PAGES, _index),
        }
        errors: Mapping[Any, Callable[..., Any]] = {
            ApiError: _refused,
            BackendError: self._unusable,
            HTTPException: _unknown,
        }
        routes = [Route(path, handler, methods=["GET"]) for path, handler in get.items()]
        action = Route("/api/jobs/{name:path}/{verb}", self.act, methods=["POST"])
        simulate = Route("/api/simulation/{verb}", self.simulate, methods=["POST"])
        return Starlette(routes=[action, simulate, *routes], exception_handlers=dict(errors))

    async def _pages_of(self, request: Request) -> Pages:
        return await self.pages(request.scope[SESSION])

    async def session(self, request: Request) -> Response:
        """The token for changes, and whether the session may make any."""
        session, pages = request.scope[SESSION], await self._pages_of(request)
        return json_response({"csrf": session.csrf, "may_act": session.may_act, **await pages.about()})

    async def view(self, request: Request) -> Response:
        """A view, computed once for each version of the state and each audience."""
        name, argument = request.path_params["view"], request.path_params.get("name", "")
        pages = await self._pages_of(request)
        if len(request.url.path) + len(request.url.query) > _MAX_PATH:
            raise ApiError(ErrorCode.BAD_REQUEST, "the address is too long", f"use at most {_MAX_PATH} characters")
        view = await pages.find(name, argument, dict(request.query_params))
        if view is None:
            raise HTTPException(404)
        found = await self.cache.answer(pages.audience, view, self.version.number)
        return _cached(request, found)

    async def log(self, request: Request) -> Response:
        """A piece of a job's output."""
        pages = await self._pages_of(request)
        return json_response(await pages.log(request.path_params["name"], dict(request.query_params)))

    async def stream(self, request: Request) -> Response:
        """Versions of the state as server-sent events; a page that returns names the last one that it saw."""
        pages = await self._pages_of(request)
        if self.version.is_full or self._streams[pages.visitor] >= self.streams_each:
            return PlainTextResponse("too many pages are open\n", 503)
        seen = request.headers.get("last-event-id", "0")
        number = int(seen) if seen.isdecimal() and len(seen) < 16 else 0
        events = self._events(pages, number)
        return StreamingResponse(events, media_type="text/event-stream")

    async def _events(self, pages: Pages, seen: int) -> AsyncIterator[bytes]:
        """Yields versions until the visitor's rights end or change: its page then connects and reads again."""
        self._streams[pages.visitor] += 1
        try:
            yield f"retry: {_RETRY_MS}\n\n".encode()
            async with aclosing(self.version.follow(seen)) as numbers:
                async for number in numbers:
                    if not await pages.lasts():
                        return
                    yield f"id: {number}\nevent: version\ndata: {number}\n\n".encode()
        finally:
            self._streams[pages.visitor] -= 1
            if not self._streams[pages.visitor]:
                del self._streams[pages.visitor]

    async def act(self, request: Request) -> Response:
        """Cancels, suspends or resumes a job."""
        pages, given = await self._pages_of(request), await _read_object(request)
        return json_response(await pages.act(request.path_params["verb"], request.path_params["name"], given))

    async def simulation(self, request: Request) -> Response:
        """State and result of the simulation."""
        return json_response((await self._pages_of(request)).simulation.state())

    async def simulation_report(self, request: Request) -> Response:
        """The whole report as a file: a page with its own scripts, which this site does not run."""
        page = (await self._pages_of(request)).simulation.report_page()
        if page is None:
            raise HTTPException(404)
        name = "attachment; filename=simulation.html"
        return Response(page, media_type="text/html", headers={"content-disposition": name})

    async def simulate(self, request: Request) -> Response:
        """Starts or stops the simulation."""
        verb, simulation = request.path_params["verb"], (await self._pages_of(request)).simulation
        if verb == "start":
            return json_response(await simulation.start(await _read_object(request)))
        if verb == "stop":
            return json_response(await simulation.stop())
        raise HTTPException(404)

    async def _unusable(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, BackendError)  # noqa: S101 - registered for this type
        return await _refused(request, ApiError(ErrorCode.INTERNAL, f"cannot answer now: {self.explain(error)}"))


async def _read_object(request: Request) -> Json:
    """The JSON object of a request. Raises ApiError."""
    try:
        given = json.loads(await read_body(request, _MAX_BODY) or b"{}")
    except (ValueError, RecursionError):
        raise ApiError(ErrorCode.BAD_REQUEST, "the request is not JSON") from None
    if not isinstance(given, dict):
        raise ApiError(ErrorCode.BAD_REQUEST, "the request is not a JSON object")
    return given


async def read_body(request: Request, limit: int) -> bytes:
    """The body of a request, read up to a number of bytes. Raises ApiError."""
    raw = bytearray()
    async for part in request.stream():
        raw += part
        if len(raw) > limit:
            raise ApiError(ErrorCode.BAD_REQUEST, "the request is too large")
    return bytes(raw)


def _cached(request: Request, found: CachedAnswer) -> Response:
    headers = {"etag": found.etag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    body = found.plain
    if found.compressed is not None and accepts_gzip(request.headers):
        body, headers = found.compressed, {**headers, "content-encoding": "gzip"}
    return Response(body, headers=headers, media_type="application/json")


async def _index(request: Request) -> Response:
    return index_response(request.url.path, request.headers)


async def _asset(request: Request) -> Response:
    found = asset_response(request.path_params["path"], request.headers)
    if found is None:
        raise HTTPException(404)
    return found


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)  # noqa: S101 - registered for this type
    return json_response(error.as_json(), HTTP_STATUS[error.code])


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this type
    if request.url.path.startswith(("/api/", "/assets/")):
        return PlainTextResponse("there is no such page\n", error.status_code)
    return HTMLResponse(_NO_PAGE, error.status_code)
