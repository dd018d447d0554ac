"""Queue of events for the controller, with the futures of callers that wait until an event is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from windlass.backends.event_timeout import wait_for_event
from windlass.backends.port import BackendEvent


class Inbox:
    """Events in order of arrival. `put` and `wake` must be called in the event loop's thread."""

    def __init__(self) -> None:
        self._events: list[BackendEvent] = []
        self._promises: list[asyncio.Future[None]] = []
        self._ready = asyncio.Event()

    def put(self, *events: BackendEvent, promise: asyncio.Future[None] | None = None) -> None:
        """Adds events. `promise` is resolved once the turn that took them is durable."""
        self._events += events
        if promise is not None:
            self._promises.append(promise)
        if events:
            self._ready.set()

    def wake(self) -> None:
        """Makes `wait` return, even without an event."""
        self._ready.set()

    async def wait(self, seconds: float | None) -> None:
        """Waits until there is an event, at most `seconds`; None: without limit."""
        if not self._ready.is_set() and (seconds is None or seconds > 0):
            await wait_for_event(self._ready, seconds)
        self._ready.clear()

    def take(self) -> tuple[Sequence[BackendEvent], list[asyncio.Future[None]]]:
        """Removes and returns all events and their promises."""
        events, promises = self._events, self._promises
        self._events, self._promises = [], []
        return events, promises


def resolve(promises: list[asyncio.Future[None]]) -> None:
    """Resolves futures that their callers have not cancelled."""
    for promise in promises:
        if not promise.done():
            promise.set_result(None)
