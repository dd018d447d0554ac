"""HTTP server of the operator's ports: bounds on methods, connections, headers, bodies and times.

A port answers GET and HEAD without bodies, unless its limits allow small bodies of POST or long event streams.

Anybody who reaches a port may send anything. A connection costs a bounded amount of memory, and ends by a deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

_METHODS = ("GET", "HEAD")
_POST = "POST"
_CLOSE: Mapping[str, str] = MappingProxyType({"Connection": "close"})
_MAX_DIGITS = 12
CLIENT_NAME = "windlass.client_name"
"""Key of the ASGI scope: the common name in the client's verified certificate; absent without one."""
_SHUTDOWN_TIMEOUT_S = 1
"""Seconds for requests that are under way when the operator stops."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits of one port."""

    connections: int = 256
    """Maximum number of open connections; more are closed at once."""
    per_peer: int = 32
    """Maximum number of open connections of one address."""
    header_bytes: int = 16 << 10
    """Maximum size of a request's header."""
    header_timeout_s: float = 5.0
    """Seconds for the header of a request, and for the TLS handshake; also the idle time between two requests."""
    request_timeout_s: float = 60.0
    """Seconds for an answer and its transmission."""
    body_bytes: int = 0
    """Maximum size of the body of a POST request, whose header must name it; 0: the port takes no POST request."""
    body_timeout_s: float = 10.0
    """Seconds for such a body."""
    streams: frozenset[str] = frozenset()
    """Paths whose answers are event streams."""
    stream_timeout_s: float = 600.0
    """Seconds for an event stream: its client connects again."""


DEFAULT_LIMITS = HttpLimits()


class BoundedListener(socket.socket):
    """A listening socket that closes connections beyond its limits as soon as it has accepted them."""

    limits: HttpLimits

    @classmethod
    def bound(cls, listener: socket.socket, limits: HttpLimits) -> BoundedListener:
        """Takes over a listening socket."""
        taken = cls(listener.family, listener.type, listener.proto, fileno=listener.detach())
        taken.limits, taken._accepted = limits, {}
        return taken

    def accept(self) -> tuple[socket.socket, Any]:
        """Accepts a connection. Raises BlockingIOError if none waits or if it is beyond the limits."""
        connection, address = super().accept()
        self._accepted = {each: peer for each, peer in self._accepted.items() if each.fileno() >= 0}
        peer, peers = address[0], list(self._accepted.values())
        if len(peers) >= self.limits.connections or peers.count(peer) >= self.limits.per_peer:
            connection.close()
            raise BlockingIOError(errno.EAGAIN, "too many connections")
        self._accepted[connection] = peer
        return connection, address

    _accepted: dict[socket.socket, str]
    """Open connections with the address of their peer."""


def bounded_server(app: ASGIApp, limits: HttpLimits, tls: ssl.SSLContext | None = None) -> BoundedServer:
    """A server of an application. The application gets only requests that the limits allow, with their whole bodies."""
    config = uvicorn.Config(
        _with_bounded_bodies(app, limits),
        http=type("LimitedProtocol", (BoundedProtocol,), {"limits": limits}),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=limits.header_bytes,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
    )
    return BoundedServer(config, limits, tls)


class BoundedServer(uvicorn.Server):
    """uvicorn's server with a limit for the TLS handshake. The operator handles the signals."""

    def __init__(self, config: uvicorn.Config, limits: HttpLimits, tls: ssl.SSLContext | None) -> None:
        super().__init__(config)
        self._limits, self._tls = limits, tls

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens on the sockets."""
        loop = asyncio.get_running_loop()
        protocol: Any = self.config.http_protocol_class

        def connect() -> asyncio.Protocol:
            connected: asyncio.Protocol = protocol(self.config, self.server_state, {}, loop)
            return connected

        timeout = None if self._tls is None else self._limits.header_timeout_s
        listeners = [BoundedListener.bound(each, self._limits) for each in sockets or ()]
        self.servers = [
            await loop.create_server(connect, sock=each, ssl=self._tls, ssl_handshake_timeout=timeout)
            for each in listeners
        ]
        self.started = True

    async def serve_until_cancelled(self, listener: socket.socket, stop: Callable[[], None] = lambda: None) -> None:
        """Serves on this socket. `stop` is called before the server waits for requests that are under way."""
        serving = asyncio.create_task(self.serve(sockets=[listener]))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            stop()
            self.should_exit = True
            await serving
            raise


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol, which closes a connection when a header or an answer takes too long."""

    limits = DEFAULT_LIMITS
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begins the time limit of the first header."""
        super().connection_made(transport)
        if certificate := transport.get_extra_info("peercert"):
            self.app = _with_client_name(self.app, certificate)
        self._limit_time()

    def data_received(self, data: bytes) -> None:
        """Begins the time limit of an answer once a header is complete."""
        was_answering = self._is_answering()
        super().data_received(data)
        if self._is_answering() and not was_answering:
            self._limit_time()

    def on_response_complete(self) -> None:
        """Begins the time limit of the next header."""
        super().on_response_complete()
        self._limit_time()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the time limits."""
        super().connection_lost(exc)
        if self._deadline is not None:
            self._deadline.cancel()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _limit_time(self) -> None:
        """Starts the time limit of the answer that is under way, else that of the next header."""
        if self._deadline is not None:
            self._deadline.cancel()
        limit = self.limits.header_timeout_s
        if self._is_answering():
            is_stream = self.cycle.scope["path"] in self.limits.streams
            limit = self.limits.stream_timeout_s if is_stream else self.limits.request_timeout_s
        self._deadline = self.loop.call_later(limit, self.transport.abort)


def _with_client_name(app: Any, certificate: Mapping[str, Any]) -> ASGIApp:
    """The application for a client with a certificate that TLS has verified."""
    name = next((value for part in certificate["subject"] for key, value in part if key == "commonName"), "")

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, CLIENT_NAME: name}, receive, send)

    return answer


def _with_bounded_bodies(app: ASGIApp, limits: HttpLimits) -> ASGIApp:
    """The application behind a check of methods and bodies; a refused request's body is not read."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if refusal := _refusal(scope, limits):
            await refusal(scope, receive, send)
        elif scope["method"] == _POST:
            await _answer_post(app, limits.body_timeout_s, scope, receive, send)
        else:
            await app(scope, receive, send)

    return answer


async def _answer_post(app: ASGIApp, timeout_s: float, scope: Scope, receive: Receive, send: Send) -> None:
    """Passes a request on with its whole body, whose size the header has named."""
    parts: list[Message] = []
    try:
        async with asyncio.timeout(timeout_s):
            while not parts or parts[-1].get("more_body", False):
                parts.append(await receive())
    except TimeoutError:
        late = PlainTextResponse("the body of the request took too long\n", 408, _CLOSE)
        await late(scope, receive, send)
        return
    body = b"".join(part.get("body", b"") for part in parts)
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_whole() -> Message:
        return whole.pop() if whole else await receive()

    await app(scope, receive_whole, send)


def _refusal(scope: Scope, limits: HttpLimits) -> PlainTextResponse | None:
    allowed = (*_METHODS, _POST) if limits.body_bytes else _METHODS
    if scope["method"] not in allowed:
        text = " and ".join((", ".join(allowed[:-1]), allowed[-1]))
        return PlainTextResponse(f"this port answers {text}\n", 405, {"Allow": ", ".join(allowed), **_CLOSE})
    sent = dict(scope["headers"])
    size = sent.get(b"content-length", b"0")
    most = limits.body_bytes if scope["method"] == _POST else 0
    if b"transfer-encoding" in sent or not size.isdigit() or len(size) > _MAX_DIGITS or int(size) > most:
        text = (
            f"this port takes bodies of at most {most} bytes, with their length" if most else "this port takes no body"
        )
        return PlainTextResponse(f"{text}\n", 413, _CLOSE)
    return None
