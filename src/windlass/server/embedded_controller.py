"""A controller without a daemon: a `LocalServer` in a thread of this process, with the interface of a client."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from windlass.backends.local.folder_lock import FolderLock
from windlass.backends.local.supervisor_start import SupervisorLink
from windlass.server import unix_socket as unix
from windlass.server.cluster_options import ClusterOptions
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.local_server import LocalServer
from windlass.server.submission_request import SubmissionRequest

Json = dict[str, Any]
Answer = TypeVar("Answer")
_END = object()


class EmbeddedController:
    """Controller in a thread, with the calls of `client.Client` that a foreground job needs. Raises server errors."""

    kind = "run"

    def __init__(
        self,
        state: Path,
        options: ClusterOptions,
        held: FolderLock,
        link: SupervisorLink | None,
        say: Callable[[str], None],
    ) -> None:
        self._ready: Future[LocalServer] = Future()
        self._broken: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        create = partial(LocalServer, state, options, "run", held, link, say)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main(state, create)), name="controller")
        self._thread.start()
        try:
            self._server = self._ready.result()
        except BaseException:
            held.release()
            raise

    def ping(self) -> Json:
        """See `Client.ping`."""
        return self._call(_ping(self._server))

    def submit(self, submissions: Sequence[Any], **facts: Any) -> list[str]:
        """See `Client.submit`."""
        return self._call(self._server.actions.submit(SubmissionRequest(tuple(submissions), **facts)))

    def job(self, name: str) -> Json:
        """See `Client.job`."""
        return self._call(self._server.service.job(name))

    def explain(self, name: str, what_if: str = "") -> Json:
        """See `Client.explain`."""
        return self._call(self._server.service.scheduler.explain(name, what_if))

    def act(self, verb: str, name: str, **how: Any) -> Json:
        """See `Client.act`."""
        return self._call(self._server.actions.act(verb, name, how))

    def follow(self, name: str, after: int = 0) -> _Events:
        """See `Client.follow`."""
        return _Events(self._server, self._running(), name, after)

    @property
    def succeeded(self) -> bool:
        """Whether another controller has taken over on request."""
        return self._server.succeeded

    def close(self) -> None:
        """Ends the controller. If jobs of others live, their clients take over; else the process supervisor ends."""
        if self._thread.is_alive():
            self._running().call_soon_threadsafe(self._leave)
        self._thread.join()
        if self._broken is not None:
            raise self._broken

    def _leave(self) -> None:
        self._server.leave(self._server.backend.has_living_jobs())

    def _call(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        """Runs a coroutine in the controller's loop. Raises ApiError GONE if the controller has ended."""
        try:
            return asyncio.run_coroutine_threadsafe(call, self._running()).result()
        except CancelledError:
            raise _gone_error() from None
        except RuntimeError:  # the loop is closed
            call.close()
            raise _gone_error() from None

    def _running(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None  # noqa: S101 - set before `_ready` is
        return self._loop

    async def _main(self, state: Path, create: Callable[[], LocalServer]) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            listener = unix.listen(state)
            server = create()
        except BaseException as trouble:  # noqa: BLE001 - raised again by `__init__`
            self._ready.set_exception(trouble)
            return
        self._ready.set_result(server)
        try:
            await server.live(listener)
        except BaseException as trouble:  # noqa: BLE001 - raised again by `close`
            self._broken = trouble


class _Events:
    """Event stream with the interface of `client.ApiEventStream`."""

    def __init__(self, server: LocalServer, loop: asyncio.AbstractEventLoop, name: str, after: int) -> None:
        self.after = after
        self._came: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._task = asyncio.run_coroutine_threadsafe(self._pump(server, name, after), loop)

    def poll(self, timeout: float) -> list[Json]:
        """Events that have arrived, after at most `timeout` seconds. Raises ApiError GONE at the end."""
        events: list[Json] = []
        try:
            item = self._came.get(timeout=timeout) if timeout > 0 else self._came.get_nowait()
            while True:
                if item is _END:
                    return self._at_end(events)
                self.after = max(self.after, item.get("number", 0))
                events.append(item)
                item = self._came.get_nowait()
        except queue.Empty:
            return events

    def close(self) -> None:
        """Closes the stream."""
        self._task.cancel()

    def _at_end(self, events: list[Json]) -> list[Json]:
        if not events:
            raise _gone_error()
        self._came.put(_END)
        return events

    async def _pump(self, server: LocalServer, name: str, after: int) -> None:
        try:
            async for event in await server.service.events.follow(name, after):
                self._came.put(event)
        finally:
            self._came.put(_END)


def _gone_error() -> ApiError:
    return ApiError(ErrorCode.GONE, "the controller has ended")


async def _ping(server: LocalServer) -> Json:
    return server.service.ping()
