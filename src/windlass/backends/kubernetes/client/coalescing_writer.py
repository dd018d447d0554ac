"""Writes frequently changing values in the background: only the latest value, at a bounded rate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from windlass.backends.kubernetes.client.api_errors import ApiError, NotLeader, Unreachable

K = TypeVar("K", bound=Hashable)


class CoalescingWriter(Generic[K]):
    """Background writer that calls `write` once for many changes of one key.

    A marked key is written `delay` seconds later, and at most once in `every` seconds. `at_once`: number of keys
    written concurrently. Errors of the API server are passed to `on_trouble`; writes that did not reach it are retried.
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
        self._reported: set[str] = set()

    def mark(self, key: K) -> None:
        """Marks a key whose value has changed."""
        if key not in self._pending:
            self._pending[key] = asyncio.get_running_loop().create_task(self._write_later(key))

    def forget(self, key: K) -> None:
        """Cancels the write of a key."""
        self._written.pop(key, None)
        if (task := self._pending.pop(key, None)) is not None:
            task.cancel()

    async def close(self) -> None:
        """Stops; pending writes are dropped."""
        tasks = list(self._pending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _write_later(self, key: K) -> None:
        loop = asyncio.get_running_loop()
        earliest = self._written.get(key, -self._every) + self._every
        await asyncio.sleep(max(self._delay, earliest - loop.time()))
        async with self._at_once:
            del self._pending[key]  # a later change must be written again
            self._written[key] = loop.time()
            try:
                await self._write(key)
            except (Unreachable, NotLeader):
                self.mark(key)
            except ApiError as error:
                self._report_once(str(error))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this key's
                self._report_once(f"{type(error).__name__}: {error}")

    def _report_once(self, text: str) -> None:
        """Reports an error once: a missing permission is missing for every gang."""
        if text not in self._reported:
            self._reported.add(text)
            self._on_trouble(text)
