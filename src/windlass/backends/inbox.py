"""What has happened and was not told yet, and who waits for it to become durable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from windlass.backends.port import WorldEvent
from windlass.backends.waiting import comes


class Inbox:
    """`put` and `wake` are for the loop's own thread."""

    def __init__(self) -> None:
        self._events: list[WorldEvent] = []
        self._promises: list[asyncio.Future[None]] = []
        self._ready = asyncio.Event()

    def put(self, event: WorldEvent, promise: asyncio.Future[None] | None = None) -> None:
        """To be taken next. `promise` is kept once the turn that took it is durable."""
        self._events.append(event)
        if promise is not None:
            self._promises.append(promise)
        self._ready.set()

    def wake(self) -> None:
        """Have `wait` return, even if there is nothing."""
        self._ready.set()

    async def wait(self, seconds: float | None) -> None:
        """Until there is something, or for so long."""
        if not self._ready.is_set() and (seconds is None or seconds > 0):
            await comes(self._ready, seconds)
        self._ready.clear()

    def take(self) -> tuple[Sequence[WorldEvent], list[asyncio.Future[None]]]:
        """All of it."""
        events, promises = self._events, self._promises
        self._events, self._promises = [], []
        return events, promises


def keep(promises: list[asyncio.Future[None]]) -> None:
    """Whoever waited may go on."""
    for promise in promises:
        if not promise.done():
            promise.set_result(None)
