"""Answers of views, computed once for each version of the state and each audience, however many pages are open."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

_MAX_ANSWERS = 256
_MIN_COMPRESSED_BYTES = 1_024


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """A JSON body at one version, plain and, where it is worth it, compressed."""

    etag: str
    plain: bytes
    compressed: bytes | None


@dataclass(slots=True)
class ViewCache:
    """The latest answers by key; a key is computed by one request at a time."""

    _answers: OrderedDict[tuple[str, str], CachedAnswer] = field(default_factory=OrderedDict)
    _locks: dict[tuple[str, str], asyncio.Lock] = field(default_factory=dict)

    async def answer(
        self, audience: str, key: str, version: int, produce: Callable[[], Awaitable[Any]]
    ) -> CachedAnswer:
        """The answer of `produce` at this version, computed or kept. Raises what `produce` raises.

        `audience`: key of what the visitor may read. Answers of one audience are never given to another.
        """
        place, etag = (audience, key), f'"{version}.{audience}"'
        lock = self._locks.setdefault(place, asyncio.Lock())
        try:
            async with lock:
                found = self._answers.get(place)
                if found is None or found.etag != etag:
                    found = _encode(await produce(), etag)
                    self._answers[place] = found
                self._answers.move_to_end(place)
                while len(self._answers) > _MAX_ANSWERS:
                    self._answers.popitem(last=False)
        finally:
            if not lock.locked():
                self._locks.pop(place, None)
        return found


def _encode(content: Any, etag: str) -> CachedAnswer:
    plain = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    compressed = gzip.compress(plain, 5) if len(plain) >= _MIN_COMPRESSED_BYTES else None
    return CachedAnswer(etag, plain, compressed)
