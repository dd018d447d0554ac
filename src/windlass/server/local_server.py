"""A controller, its world and the API in one loop: what `windlass up` is, and what `windlass run` is without one."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path

from windlass.backends.local.backend import LocalBackend
from windlass.backends.local.folder_lock import Kind, Lock
from windlass.backends.local.paths import StatePaths
from windlass.backends.local.state_reader import StateReader
from windlass.backends.local.supervisor_start import Link
from windlass.backends.port import BackendError, Changes
from windlass.controller import Controller, run
from windlass.core.model.status import Phase
from windlass.server.cluster_options import ClusterOptions
from windlass.server.cluster_selection import choose_cluster, save_cluster
from windlass.server.feed import Feed, Watched
from windlass.server.garbage_collection import collect_rarely
from windlass.server.local_actions import LocalActions
from windlass.server.local_data_source import LocalDataSource
from windlass.server.service import Service

_NOTED = 1_000
"""Verdicts written down at the end, for `why` while no controller runs."""


class LocalServer:
    """Everything of one state folder, until `leave`. Made and lived in by one thread. Raises WorldError."""

    def __init__(
        self, state: Path, wanted: ClusterOptions, kind: Kind, held: Lock, link: Link | None, say: Callable[[str], None]
    ) -> None:
        self.feed = Feed()
        self._say = say
        self.succeeded = False
        self._ends_supervisor = False
        self._stop = asyncio.Event()
        self._kind = kind
        here = choose_cluster(state, wanted)
        lasting: Kind = "up" if kind == "up" or _has_lasting_jobs(state) else "run"
        self.world = LocalBackend(state, here, kind=lasting, held=held, link=link, on_trouble=say)
        save_cluster(self.world.store, self.world.cluster)
        self.controller = Controller(self.world.recover(), self.world.finished)
        self.service = Service(self.controller, LocalDataSource(self.world), self.feed, kind)
        self.orders = LocalActions(self.service, self.controller, self.world, self.feed, self._told_to_leave)

    async def live(self, listener: socket.socket) -> None:
        """Control, and answer whoever rings, until told to leave. What runs goes on, unless the supervisor is ended."""
        from windlass.server.http_server import serve_api  # noqa: PLC0415 - loads asyncio's half of HTTP only

        collect_rarely()
        loop = asyncio.get_running_loop()
        controlling = loop.create_task(run(self.controller, Watched(self.world, self.feed), on_trouble=self._trouble))
        answering = loop.create_task(serve_api(listener, self.service, self.orders, at_once=self._kind == "up"))
        stopping = loop.create_task(self._stop.wait())
        await asyncio.wait([controlling, stopping], return_when=asyncio.FIRST_COMPLETED)
        # 1. nothing more is promised to anybody
        self.feed.close()
        try:
            # 2. the API says goodbye, then the controller stops between two turns
            for task in (answering, stopping, controlling):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await self._note_verdicts()
        finally:
            listener.close()  # whoever rang and was not heard must not wait for an answer
            # 3. the folder is free for the next one
            self._ends_supervisor = self._ends_supervisor or not self.world.living()
            self.world.close(end=self._ends_supervisor)

    @property
    def keeps_jobs(self) -> bool:
        """Whether what runs goes on after `live`."""
        return not self._ends_supervisor

    def leave(self, keep_jobs: bool = True) -> None:  # noqa: FBT001, FBT002 - a callback
        """Let `live` return. Without `keep_jobs` the supervisor and all it keeps ends too."""
        self._ends_supervisor = not keep_jobs
        self._stop.set()

    def _told_to_leave(self, keep_jobs: bool) -> None:  # noqa: FBT001 - a callback
        self.succeeded = True
        self.leave(keep_jobs)

    def _trouble(self, text: str) -> None:
        self._say(text)
        self.feed.complain(text)

    async def _note_verdicts(self) -> None:
        waiting = [s.id for s in self.controller.states.values() if s.status.phase is Phase.QUEUED][:_NOTED]
        verdicts = self.controller.plan.verdicts
        self.world.note_verdicts({job_id: verdicts[job_id] for job_id in waiting if job_id in verdicts})
        with contextlib.suppress(BackendError):  # it was only for the reader's convenience
            await self.world.commit(Changes())


def _has_lasting_jobs(state: Path) -> bool:
    """Tells whether jobs of a daemon still live, which the supervisor must keep when a `run` takes over and ends."""
    records = StateReader.open(StatePaths(state))
    if records is None:
        return False
    with contextlib.closing(records):
        return len(records.alive()) > len(records.owners())
