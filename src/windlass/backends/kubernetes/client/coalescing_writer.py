"""Writes that nobody waits for: of what changes often only the latest is written, and not too often."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from windlass.backends.kubernetes.client.api_errors import ApiError, NotLeader, Unreachable

K = TypeVar("K", bound=Hashable)


class CoalescingWriter(Generic[K]):
    """`write` is called for each key that was marked: `delay` seconds later, and once in `every` seconds at most.

    `at_once`: keys that are written at a time. What the API server does not take is told to `on_trouble`; what did not
    reach it is tried again.
    """

    def __init__(
        self,
        write: Callable[[K], Awaitable[None]],
        on_trouble: Callable[[str], None],
        *,
        delay: float,
        every: float,
        at_once: int = 16,
    ) -> None:
        self._write, self._on_trouble = write, on_trouble
        self._delay, self._every = delay, every
        self._at_once = asyncio.Semaphore(at_once)
        self._pending: dict[K, asyncio.Task[None]] = {}
        self._written: dict[K, float] = {}
        self._told: set[str] = set()

    def mark(self, key: K) -> None:
        """What is to be written of this key has changed."""
        if key not in self._pending:
            self._pending[key] = asyncio.get_running_loop().create_task(self._soon(key))

    def forget(self, key: K) -> None:
        """Nothing is to be written of it any more."""
        self._written.pop(key, None)
        if (task := self._pending.pop(key, None)) is not None:
            task.cancel()

    async def close(self) -> None:
        """What is not written yet stays unwritten."""
        tasks = list(self._pending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _soon(self, key: K) -> None:
        loop = asyncio.get_running_loop()
        earliest = self._written.get(key, -self._every) + self._every
        await asyncio.sleep(max(self._delay, earliest - loop.time()))
        async with self._at_once:
            del self._pending[key]  # whatever changes from here on is to be written anew
            self._written[key] = loop.time()
            try:
                await self._write(key)
            except (Unreachable, NotLeader):
                self.mark(key)
            except ApiError as error:
                self._tell(str(error))

    def _tell(self, text: str) -> None:
        """Once: a right that is missing is missing for every gang."""
        if text not in self._told:
            self._told.add(text)
            self._on_trouble(text)
