"""A mapping of bounded size whose entries expire, and whose computations are shared."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class ExpiringCache(Generic[K, V]):
    """Entries live for some seconds. The oldest is dropped for a new one when the cache is full."""

    def __init__(self, size: int, life_s: float) -> None:
        self._size, self._life_s = size, life_s
        self._entries: dict[K, tuple[float, V]] = {}
        self._pending: dict[K, asyncio.Task[V]] = {}

    def __contains__(self, key: K) -> bool:
        entry = self._entries.get(key)
        return entry is not None and entry[0] > time.monotonic()

    def __getitem__(self, key: K) -> V:
        return self._entries[key][1]

    def __setitem__(self, key: K, value: V) -> None:
        self._entries.pop(key, None)
        if len(self._entries) >= self._size:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = time.monotonic() + self._life_s, value

    def is_pending(self, key: K) -> bool:
        """Whether the entry of a key is being computed."""
        return key in self._pending

    async def fetch(self, key: K, compute: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """The entry of a key, else the result of `compute`, which becomes the entry. Raises what `compute` raises.

        Concurrent callers share one computation. It goes on when a caller is cancelled, so its own time must be
        bounded. An error is raised to all callers that wait, and is not kept.
        """
        if key in self:
            return self[key]
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = asyncio.create_task(compute())
            pending.add_done_callback(partial(self._end_computation, key))
        return await asyncio.shield(pending)

    def _end_computation(self, key: K, ended: asyncio.Task[V]) -> None:
        del self._pending[key]
        if not ended.cancelled() and ended.exception() is None:
            self[key] = ended.result()
