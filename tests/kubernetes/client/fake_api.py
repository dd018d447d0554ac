"""A fake API server with faults: each request gets the next prepared answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web

Trick = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


@dataclass
class FakeApi:
    """Prepared answers are used in order; after the last, `usual` answers."""

    url: str = ""
    tricks: list[Trick] = field(default_factory=list)
    usual: Trick | None = None
    seen: list[Seen] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append(Seen(request.method, request.path, dict(request.query), dict(request.headers), body))
        trick = self.tricks.pop(0) if self.tricks else self.usual
        assert trick is not None, f"no answer is prepared for {request.method} {request.path} is answered with"
        return await trick(request)


@contextlib.asynccontextmanager
async def fake_api(
    *tricks: Trick, usual: Trick | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[FakeApi]:
    api = FakeApi(tricks=list(tricks), usual=usual)
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", api.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    api.url = "{}://{}:{}".format("https" if tls else "http", *runner.addresses[0][:2])
    try:
        yield api
    finally:
        await runner.cleanup()


def says(body, status: int = 200, **headers: str) -> Trick:
    """A JSON answer."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status, headers=headers)

    return answer


def refuses(status: int, reason: str = "", message: str = "", *, details=None, **headers: str) -> Trick:
    """A Status as the API server writes it."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status}
    return says({**body, "reason": reason, "message": message or reason, "details": details or {}}, status, **headers)


async def hangs_up(request: web.Request) -> web.StreamResponse:
    """Reads the request and closes the connection without an answer."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()


def page(*objects, version: str = "100", rest: str = "") -> Trick:
    """A list's reply."""
    metadata = {"resourceVersion": version, **({"continue": rest} if rest else {})}
    return says({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": list(objects)})


def pod(name: str = "p", version: int = 1, *, uid: str = "", node: str | None = None, **more):
    metadata = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    spec = {"containers": [{"name": "main"}], **({"nodeName": node} if node else {})}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, **more}


def event(type: str, object) -> bytes:
    return json.dumps({"type": type, "object": object}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


def streams(*pieces: bytes, then: str = "silence") -> Trick:
    """A watch: these pieces, and then `silence`, the `end` that the server chooses, or a `cut`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        if then == "silence":
            await asyncio.sleep(3600)
        elif then == "cut":
            assert request.transport is not None
            request.transport.close()
        return response

    return answer
