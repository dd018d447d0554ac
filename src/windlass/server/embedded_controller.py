"""The daemonless controller: a house in a thread of this process, asked as a client asks a daemon."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any, TypeVar

from windlass.backends.local.folder_lock import Lock
from windlass.backends.local.supervisor_start import Link
from windlass.server import unix_socket as unix
from windlass.server.cluster_options import ClusterOptions
from windlass.server.errors import ApiError, Code
from windlass.server.local_server import LocalServer
from windlass.server.submission_request import SubmissionRequest

Json = dict[str, Any]
Answer = TypeVar("Answer")
_END = object()


class EmbeddedController:
    """The calls of `client.Client` that a foreground job needs, without a socket. Raises what the house raises."""

    kind = "run"

    def __init__(
        self, state: Path, wanted: ClusterOptions, held: Lock, link: Link | None, say: Callable[[str], None]
    ) -> None:
        self._ready: Future[LocalServer] = Future()
        self._broken: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, args=(state, wanted, held, link, say), name="controller")
        self._thread.start()
        try:
            self._house = self._ready.result()
        except BaseException:
            held.release()
            raise

    def ping(self) -> Json:
        """As `Client.ping`."""
        return self._ask(_ping(self._house))

    def submit(self, submissions: Sequence[Any], **facts: Any) -> list[str]:
        """As `Client.submit`."""
        return self._ask(self._house.orders.submit(SubmissionRequest(tuple(submissions), **facts)))

    def job(self, name: str) -> Json:
        """As `Client.job`."""
        return self._ask(self._house.service.job(name))

    def act(self, verb: str, name: str, **how: Any) -> Json:
        """As `Client.act`."""
        return self._ask(self._house.orders.act(verb, name, how))

    def follow(self, name: str, after: int = 0) -> _Events:
        """As `Client.follow`."""
        return _Events(self._house, self._running(), name, after)

    @property
    def succeeded(self) -> bool:
        """It was asked to make room for another controller."""
        return self._house.succeeded

    def close(self) -> None:
        """Leave. If other people's jobs live, whoever follows them takes over; else the supervisor ends."""
        if self._thread.is_alive():
            self._running().call_soon_threadsafe(self._leave)
        self._thread.join()
        if self._broken is not None:
            raise self._broken

    def _leave(self) -> None:
        self._house.leave(self._house.world.living())

    def _ask(self, question: Coroutine[Any, Any, Answer]) -> Answer:
        """Raises ApiError GONE if the controller has left."""
        try:
            return asyncio.run_coroutine_threadsafe(question, self._running()).result()
        except CancelledError:
            raise _left() from None
        except RuntimeError:  # its loop is closed
            question.close()
            raise _left() from None

    def _running(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None  # noqa: S101 - set before `_ready` is
        return self._loop

    def _work(
        self, state: Path, wanted: ClusterOptions, held: Lock, link: Link | None, say: Callable[[str], None]
    ) -> None:
        asyncio.run(self._main(state, wanted, held, link, say))

    async def _main(
        self, state: Path, wanted: ClusterOptions, held: Lock, link: Link | None, say: Callable[[str], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            listener = unix.listen(state)
            house = LocalServer(state, wanted, "run", held, link, say)
        except BaseException as trouble:  # noqa: BLE001 - raised again where the house was asked for
            self._ready.set_exception(trouble)
            return
        self._ready.set_result(house)
        try:
            await house.live(listener)
        except BaseException as trouble:  # noqa: BLE001 - raised again by `close`
            self._broken = trouble


class _Events:
    """As `client.Stream`."""

    def __init__(self, house: LocalServer, loop: asyncio.AbstractEventLoop, name: str, after: int) -> None:
        self.after = after
        self._came: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._task = asyncio.run_coroutine_threadsafe(self._pump(house, name, after), loop)

    def poll(self, timeout: float) -> list[Json]:
        """Events that have come, after at most `timeout` seconds. Raises ApiError GONE at the end."""
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
        """Stop listening."""
        self._task.cancel()

    def _at_end(self, events: list[Json]) -> list[Json]:
        if not events:
            raise _left()
        self._came.put(_END)
        return events

    async def _pump(self, house: LocalServer, name: str, after: int) -> None:
        try:
            async for event in await house.service.follow(name, after):
                self._came.put(event)
        finally:
            self._came.put(_END)


def _left() -> ApiError:
    return ApiError(Code.GONE, "the controller has left")


async def _ping(house: LocalServer) -> Json:
    return house.service.ping()
