"""Serves the dashboard on a port of the loopback interface, from the first link on."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from windlass.backends.local.paths import StatePaths
from windlass.controller.controller import Controller
from windlass.server.actions import Actions
from windlass.server.dashboard.sessions import Session, Sessions
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.feed import EventFeed
from windlass.server.service import Service

if TYPE_CHECKING:
    from windlass.server.dashboard.simulation import Simulation

DEFAULT_PORT = 7420
_PORT_FILE = "dashboard-port"
_PORTS, _MAX_DIGITS = 1 << 16, 5
_LOOPBACK = "127.0.0.1"
_SHUTDOWN_TIMEOUT_S = 1
_MAX_CONNECTIONS = 1_000


class DashboardListener:
    """The listener of one controller: opened by the first link, closed with the controller."""

    def __init__(self, service: Service, controller: Controller, feed: EventFeed, paths: StatePaths) -> None:
        self._service, self._controller, self._feed, self._paths = service, controller, feed, paths
        self._sessions = Sessions()
        self._port = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._server: Any = None
        self._simulation: Simulation | None = None

    async def open(self, actions: Actions, port: int | None, *, may_act: bool) -> str:
        """The address of a new one-time link, after starting the server if it does not run. Raises ApiError.

        `port`: None for that of the last dashboard of this folder, whose address open pages and bookmarks have.
        """
        if not self._tasks:
            listening = _listen(self._read_last_port() if port is None else port)
            self._port = listening.getsockname()[1]
            with contextlib.suppress(OSError):  # the next dashboard has another address then
                (self._paths.root / _PORT_FILE).write_text(str(self._port))
            self._serve(listening, actions)
        token = self._sessions.issue_link(self._service.source.now(), may_act=may_act)
        return f"http://{_LOOPBACK}:{self._port}/login?token={token}"

    async def close(self) -> None:
        """Ends the server and its streams."""
        if self._simulation is not None:
            await self._simulation.stop()
        if self._server is not None:
            self._server.should_exit = True
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=2 * _SHUTDOWN_TIMEOUT_S)
            for task in left:
                task.cancel()

    def _read_last_port(self) -> int:
        try:
            text = (self._paths.root / _PORT_FILE).read_text(errors="replace")
        except OSError:
            return DEFAULT_PORT
        return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS and int(text) < _PORTS else DEFAULT_PORT

    def _serve(self, listening: socket.socket, actions: Actions) -> None:
        from windlass.server.dashboard.app import Dashboard  # noqa: PLC0415 - the web framework, at the first link
        from windlass.server.dashboard.first_starts import FirstStarts  # noqa: PLC0415
        from windlass.server.dashboard.guard import DashboardGuard  # noqa: PLC0415
        from windlass.server.dashboard.link_door import LinkDoor  # noqa: PLC0415
        from windlass.server.dashboard.local_pages import LocalPages, LocalSources  # noqa: PLC0415
        from windlass.server.dashboard.pages import PageViews  # noqa: PLC0415
        from windlass.server.dashboard.simulation import Simulation  # noqa: PLC0415
        from windlass.server.dashboard.state_version import StateVersion  # noqa: PLC0415
        from windlass.server.dashboard.time_axis import TimeAxis  # noqa: PLC0415

        version, now = StateVersion(self._feed), self._service.source.now
        views = PageViews(self._service, self._controller, LocalSources(self._paths), TimeAxis(), FirstStarts())
        self._simulation = Simulation(self._service.scheduler, self._controller)
        pages = LocalPages(self._service, views, actions, self._simulation, self._paths)

        async def pages_of(_session: Session) -> LocalPages:
            return pages

        application = Dashboard(pages_of, version).application()
        door = LinkDoor(self._sessions, self._hosts, self._cookie, now)
        self._server = _make_server(DashboardGuard(application, door))
        self._tasks = [
            asyncio.create_task(version.run()),
            asyncio.create_task(self._server.serve(sockets=[listening])),
        ]

    def _cookie(self) -> str:
        """Cookies of one host are shared by all of its ports, so the name has the port."""
        return f"windlass_{self._port}"

    def _hosts(self) -> tuple[str, ...]:
        return f"{_LOOPBACK}:{self._port}", f"localhost:{self._port}"


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((_LOOPBACK, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise ApiError(
            ErrorCode.WRONG_STATE, f"port {port} cannot be used: {error.strerror}", "name another one with --port"
        ) from None
    listening.setblocking(False)
    return listening


def _make_server(application: Any) -> Any:
    import uvicorn  # noqa: PLC0415 - with the web framework

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """The daemon handles the signals."""
            yield

    return Server(
        uvicorn.Config(
            application,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
        )
    )
