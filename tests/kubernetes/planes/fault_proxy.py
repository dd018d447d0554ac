"""A reverse proxy with TLS in front of an API server, which refuses requests by rules.

A request with a bearer token is forwarded with it; one without a token acts as the administrator.
"""

from __future__ import annotations

import asyncio
import random
import re
import ssl
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.kubeconfig import Access

_REASONS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
_NOT_PASSED = {"host", "content-length", "transfer-encoding", "connection", "keep-alive"}


@dataclass
class Rule:
    """The answer to some requests. The first rule that fits applies."""

    status: int = 0
    """Status of the answer; 0: the connection is closed without an answer."""
    method: str = ""
    """GET, POST, …; empty: any."""
    path: str = ""
    """A regular expression found in the path with its query."""
    retry_after: int | None = None
    """Seconds for the Retry-After header."""
    times: int | None = None
    """Maximum number of applications; None: unlimited."""
    chance: float = 1.0
    performed: bool = False
    """Whether the request is performed and only its answer is lost."""
    applied: int = 0
    """Number of applications so far."""


class FaultProxy:
    """`async with FaultProxy(plane, [Rule(429, "POST", "/binding", retry_after=1, chance=0.1)], seed=7) as proxy`."""

    def __init__(self, plane: ControlPlane, rules: list[Rule] | None = None, seed: int = 0) -> None:
        self.rules = rules if rules is not None else []
        self.url = ""
        self.mute = False
        """While True, watches stay open and deliver no events."""
        self._plane = plane
        self._chance = random.Random(seed)  # noqa: S311 - faults, not secrets
        self._runner: web.AppRunner | None = None
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def __aenter__(self) -> Self:
        admin = self._plane.admin
        self._sessions = {True: _session(Access(admin.url, admin.authority)), False: _session(admin)}
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._ssl())
        await site.start()
        self.url = f"https://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()
        for session in self._sessions.values():
            await session.close()

    def _ssl(self) -> ssl.SSLContext:
        pair = self._plane.authority.server(self._plane.folder, "fault-proxy", ["localhost", "127.0.0.1"])
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair.certificate, pair.key)
        return context

    def _rule(self, request: web.Request) -> Rule | None:
        for rule in self.rules:
            fits = rule.method in ("", request.method) and re.search(rule.path, request.raw_path)
            if fits and rule.times != rule.applied and self._chance.random() < rule.chance:
                rule.applied += 1
                return rule
        return None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        rule = self._rule(request)
        if rule is None:
            return await self._forward(request)
        if rule.performed:
            async with await self._send(request) as answer:
                await answer.read()
        if rule.status == 0:
            assert request.transport is not None
            request.transport.abort()
            raise asyncio.CancelledError
        return _refusal(rule)

    async def _send(self, request: web.Request) -> aiohttp.ClientResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _NOT_PASSED}
        session = self._sessions["Authorization" in request.headers]
        data = await request.read() if request.can_read_body else None
        url = aiohttp.client.URL(self._plane.url + request.raw_path, encoded=True)
        return await session.request(request.method, url, headers=headers, data=data)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        try:
            answer = await self._send(request)
        except aiohttp.ClientError:
            return web.Response(status=503, text="the API server does not answer")
        try:
            return await self._pass_on(request, answer)
        except (aiohttp.ClientError, ConnectionError):  # one of the two sides is away
            if request.transport is not None:
                request.transport.abort()
            raise asyncio.CancelledError from None

    async def _pass_on(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        async with answer:
            headers = {name: value for name, value in answer.headers.items() if name.lower() not in _NOT_PASSED}
            reply = web.StreamResponse(status=answer.status, headers=headers)
            await reply.prepare(request)
            async for chunk in answer.content.iter_any():
                while self.mute and "watch" in request.query:  # noqa: ASYNC110 - polled
                    await asyncio.sleep(0.02)
                await reply.write(chunk)
            await reply.write_eof()
            return reply


def _session(access: Access) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=access.ssl(), limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
    )


def _refusal(rule: Rule) -> web.Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": rule.status,
        "reason": _REASONS.get(rule.status, ""),
        "message": "requested by a test",
    }
    headers = {} if rule.retry_after is None else {"Retry-After": str(rule.retry_after)}
    return web.json_response(body, status=rule.status, headers=headers)
