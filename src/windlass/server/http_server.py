"""HTTP server of the API on its unix socket. The first connection loads the web framework, to keep `run` fast."""

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

_KEEP_ALIVE_S = 3_600
"""Seconds for which idle connections are kept: the clients are on this machine, and few."""
_SHUTDOWN_TIMEOUT_S = 1
"""Seconds for answers that are under way when the daemon ends."""
_FORBIDDEN = (
    b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
)
_WRONG_USER = b'{"error": {"code": "not_allowed", "message": "this daemon belongs to another user", "fix": ""}}'


async def serve_api(listener: socket.socket, service: Service, actions: Actions, *, at_once: bool) -> None:
    """Serves on this socket until cancelled. `at_once`: loads the framework before the first connection."""
    listener.setblocking(False)
    if not at_once:
        await _wait_for_connection(listener)
    server = await asyncio.to_thread(_make_server, service, actions)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await serving
        raise


async def _wait_for_connection(listener: socket.socket) -> None:
    """Waits for a connection, which stays in the socket's backlog meanwhile."""
    loop = asyncio.get_running_loop()
    connected = asyncio.Event()
    loop.add_reader(listener, connected.set)
    try:
        await connected.wait()
    finally:
        loop.remove_reader(listener)


def _make_server(service: Service, actions: Actions) -> Any:
    import uvicorn  # noqa: PLC0415
    from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: PLC0415

    from windlass.server.app import application  # noqa: PLC0415

    class OwnersOnly(H11Protocol):  # h11 does not chunk streams to HTTP/1.0 clients, which our client expects
        """Serves root and the daemon's own user only. The kernel tells the user at the other end."""

        def connection_made(self, transport: Any) -> None:
            _, uid = unix.peer(transport.get_extra_info("socket"))
            if uid in (0, os.getuid()):
                super().connection_made(transport)
                return
            self.transport = transport
            transport.write(_FORBIDDEN % (len(_WRONG_USER), _WRONG_USER))
            transport.close()

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """The daemon handles the signals."""
            yield

    config = uvicorn.Config(
        application(service, actions),
        http=OwnersOnly,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
    )
    return Server(config)
