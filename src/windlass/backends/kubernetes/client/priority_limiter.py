"""Limits concurrent requests that gangs wait for, and lets all other requests wait until there are none.

The API server is the bottleneck when many gangs start at once: a service, a status or an event costs it as much as a
pod, and lets no gang start earlier.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from windlass.backends.event_timeout import wait_for_event


class PriorityLimiter:
    """An async context manager around one request."""

    def __init__(self, width: int) -> None:
        self._slots = asyncio.Semaphore(width)
        self._active = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def __aenter__(self) -> None:
        self._enter()
        try:
            await self._slots.acquire()
        except BaseException:
            self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._slots.release()
        self._leave()

    @contextlib.contextmanager
    def with_priority(self) -> Iterator[None]:
        """Admits a request with priority outside the limit."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    async def wait_until_idle(self, timeout_s: float) -> None:
        """Waits until no request with priority is active or waiting; at most `timeout_s` seconds."""
        await wait_for_event(self._idle, timeout_s)

    def _enter(self) -> None:
        self._active += 1
        self._idle.clear()

    def _leave(self) -> None:
        self._active -= 1
        if not self._active:
            self._idle.set()
