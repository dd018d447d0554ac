"""A mapping of bounded size whose entries expire."""

from __future__ import annotations

import time
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class ExpiringCache(Generic[K, V]):
    """Entries live for some seconds. The oldest is dropped for a new one when the cache is full."""

    def __init__(self, size: int, life_s: float) -> None:
        self._size, self._life_s = size, life_s
        self._entries: dict[K, tuple[float, V]] = {}

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
