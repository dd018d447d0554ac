"""Serving the API on its socket. The web framework is loaded when the first client rings: a short `run` never pays."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from windlass.server import unix_socket as unix

if TYPE_CHECKING:
    from windlass.server.actions import Actions
    from windlass.server.service import Service

_KEEP_ALIVE = 3_600
"""Seconds an idle connection may stay: its clients are on this machine, and few."""
_GOODBYE = 1
"""Seconds for answers that are under way when the daemon leaves."""
_FORBIDDEN = (
    b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
)
_NOT_YOURS = b'{"error": {"code": "not_allowed", "message": "this daemon belongs to another user", "fix": ""}}'


async def serve_api(listener: socket.socket, service: Service, orders: Actions, *, at_once: bool) -> None:
    """Answer on this socket until cancelled. `at_once` does not wait for the first client to get ready."""
    listener.setblocking(False)
    if not at_once:
        await _ring(listener)
    server = await asyncio.to_thread(_load, service, orders)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await serving
        raise


async def _ring(listener: socket.socket) -> None:
    """Until somebody connects. The connection waits in the socket's backlog meanwhile."""
    loop = asyncio.get_running_loop()
    rang = asyncio.Event()
    loop.add_reader(listener, rang.set)
    try:
        await rang.wait()
    finally:
        loop.remove_reader(listener)


def _load(service: Service, orders: Actions) -> Any:
    import uvicorn  # noqa: PLC0415
    from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: PLC0415

    from windlass.server.app import application  # noqa: PLC0415

    class OwnersOnly(H11Protocol):  # h11: its streams to HTTP/1.0 clients are bare, as our followers want them
        """Speaks with root and with the user whose daemon this is; the kernel says who is at the other end."""

        def connection_made(self, transport: Any) -> None:
            _, uid = unix.peer(transport.get_extra_info("socket"))
            if uid in (0, os.getuid()):
                super().connection_made(transport)
                return
            self.transport = transport
            transport.write(_FORBIDDEN % (len(_NOT_YOURS), _NOT_YOURS))
            transport.close()

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Signals are the daemon's."""
            yield

    config = uvicorn.Config(
        application(service, orders),
        http=OwnersOnly,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_GOODBYE,
    )
    return Server(config)
