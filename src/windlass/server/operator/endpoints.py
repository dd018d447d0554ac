"""What people and programs see of one replica of the operator, whether it leads or follows."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.port import BackendError
from windlass.controller import Controller
from windlass.server.feed import Feed
from windlass.server.operator.app import cluster_api, operator_application
from windlass.server.operator.cluster_data_source import ClusterDataSource
from windlass.server.operator.history.recorder import HistoryRecorder
from windlass.server.operator.history.store import JobHistory
from windlass.server.operator.metrics import OperatorMetrics, render_metrics
from windlass.server.operator.tapped import Tapped
from windlass.server.service import Service

_GOODBYE = 1
"""Seconds for answers that are under way when the operator leaves."""


class Endpoints:
    """One of each process; `serve` all the while, `lead` and `follow` as the lease goes.

    `unready` says why this replica could not do its work, "" once its watches have listed everything. `leader` says who
    leads, for those who ask a replica that follows.
    """

    def __init__(self, metrics: OperatorMetrics, history: JobHistory) -> None:
        self._metrics, self._history = metrics, history
        self.unready = "the watches have not listed everything yet"
        self.leader: Callable[[], str] = lambda: ""
        self._controller: Controller | None = None
        self._api: ASGIApp | None = None
        self._feed = Feed()
        self._chronicle: HistoryRecorder | None = None

    def tap(self, world: KubernetesBackend) -> Tapped:
        """The world for a controller that is about to lead: what it commits is told to history, metrics, followers."""
        self._feed = Feed()
        self._chronicle = chronicle = HistoryRecorder(world, self._history)
        self._metrics.sizes["logs to read"] = lambda: chronicle.reading
        return Tapped(world, self._feed, chronicle, self._metrics)

    def lead(self, controller: Controller, world: KubernetesBackend, tapped: Tapped) -> None:
        """From now on this replica answers."""
        facts = ClusterDataSource(controller, world, self._history, tapped.settled)
        tapped.decided = lambda: controller.decided
        self._controller = controller
        self._api = cluster_api(Service(controller, facts, self._feed, "operator"), facts)
        self._metrics.leading = True

    def complain(self, trouble: str) -> None:
        """A commit failed, and is tried again: for `controller.run`'s `on_trouble`."""
        self._feed.complain(trouble)

    async def follow(self) -> None:
        """This replica does not answer any more; those who follow what happens leave."""
        self._controller = self._api = None
        self._metrics.leading = False
        self._feed.close()
        if self._chronicle is not None:
            await self._chronicle.close()
            self._chronicle = None

    async def serve(self, listener: socket.socket) -> None:
        """Answer on this socket until cancelled."""
        app = operator_application(
            metrics=lambda: render_metrics(self._metrics, self._controller, self._history),
            unready=lambda: self.unready,
            leader=self._who_leads,
            api=lambda: self._api,
        )
        config = uvicorn.Config(
            app,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=_GOODBYE,
        )
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            self._feed.close()
            server.should_exit = True
            await serving
            raise

    def _who_leads(self) -> str:
        return self.leader()


def listen(host: str, port: int) -> socket.socket:
    """A socket to serve on; port 0 is any that is free. Raises WorldError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, dualstack_ipv6=host == "::")
    except OSError as error:
        raise BackendError(
            f"cannot listen on {host} port {port}: {error}; choose another with --metrics-port"
        ) from error


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the operator's."""
        yield
