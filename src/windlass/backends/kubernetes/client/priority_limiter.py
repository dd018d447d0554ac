"""So many requests at a time for what gangs wait for; what nobody waits for comes when they are through.

The API server is what is scarce when many gangs start at once: a service, a status or an event costs it as much as a
pod, and no gang starts the sooner for them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from windlass.backends.waiting import comes


class PriorityLimiter:
    """An async context manager around one request."""

    def __init__(self, width: int) -> None:
        self._room = asyncio.Semaphore(width)
        self._here = 0
        self._clear = asyncio.Event()
        self._clear.set()

    async def __aenter__(self) -> None:
        self._enter()
        try:
            await self._room.acquire()
        except BaseException:
            self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._room.release()
        self._leave()

    @contextlib.contextmanager
    def beside(self) -> Iterator[None]:
        """As urgent, and not counted among the many at a time."""
        self._enter()
        try:
            yield
        finally:
            self._leave()

    async def quiet(self, longest: float) -> None:
        """Until nobody is in the lane, or waits for it; for so many seconds at most."""
        await comes(self._clear, longest)

    def _enter(self) -> None:
        self._here += 1
        self._clear.clear()

    def _leave(self) -> None:
        self._here -= 1
        if not self._here:
            self._clear.set()
