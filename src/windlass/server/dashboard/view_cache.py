"""Answers of views, computed once for each version of the state and each audience, however many pages are open.

An answer from records with a stamp, as telemetry, is kept until the stamp changes: versions grow more often.
"""

from __future__ import annotations

import asyncio
import gzip
import secrets
from collections import Counter, OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import msgspec

from windlass.server.dashboard.view import View

MAX_BYTES, MAX_AUDIENCE_BYTES = 32 << 20, 16 << 20
"""Bytes of all answers, and of those of one audience. Beyond them the one that was used longest ago is dropped."""
_ENTRY_BYTES = 4_096
"""Bytes that are counted for an answer beside its body: its key has the texts of a request."""
_MIN_COMPRESSED_BYTES = 1_024
_Place: TypeAlias = tuple[str, tuple[Hashable, ...]]
"""Audience, and key of the view."""


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """A JSON body at one version, plain and, where it is worth it, compressed."""

    etag: str
    plain: bytes
    compressed: bytes | None

    @property
    def size(self) -> int:
        """Bytes in memory, about."""
        return len(self.plain) + len(self.compressed or b"") + _ENTRY_BYTES


@dataclass(slots=True)
class ViewCache:
    """The latest answers by audience and view; an answer is computed by one request at a time."""

    _name: str = field(default_factory=partial(secrets.token_hex, 4))
    """Part of the tags: versions of a later process are others."""
    _answers: OrderedDict[_Place, CachedAnswer] = field(default_factory=OrderedDict)
    """The one that was used longest ago first."""
    _versions: dict[_Place, int] = field(default_factory=dict)
    """The version at which each answer was right."""
    _sizes: Counter[str] = field(default_factory=Counter)
    """Bytes by audience."""
    _locks: dict[_Place, asyncio.Lock] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of all kept answers."""
        return self._sizes.total()

    async def answer(self, audience: str, view: View, version: int) -> CachedAnswer:
        """The answer of a view at this version, computed or kept. Raises what the view raises.

        `audience`: key of what the visitor may read. Answers of one audience are never given to another.
        """
        place = (audience, view.key)
        lock = self._locks.setdefault(place, asyncio.Lock())
        try:
            async with lock:
                found = self._answers.get(place)
                if found is None or self._versions[place] != version:
                    found = await self._compute(place, view, version)
                self._keep(place, found, version)
        finally:
            if not lock.locked():
                self._locks.pop(place, None)
        return found

    async def _compute(self, place: _Place, view: View, version: int) -> CachedAnswer:
        """The answer at this version: the kept one if its records have not changed."""
        stamp = str(version) if view.stamp is None else f"of {await view.stamp()}"
        found, etag = self._answers.get(place), f'"{self._name}.{stamp}.{place[0]}"'
        if found is not None and found.etag == etag:
            return found
        return await asyncio.to_thread(_encode, await view.produce(), etag)

    def _keep(self, place: _Place, answer: CachedAnswer, version: int) -> None:
        """Keeps an answer, and drops others until the limits hold; one that is too large alone is not kept."""
        self._drop(place)
        self._answers[place], self._versions[place] = answer, version
        self._sizes[place[0]] += answer.size
        while self._sizes[place[0]] > MAX_AUDIENCE_BYTES:
            self._drop(next(each for each in self._answers if each[0] == place[0]))
        while self.size > MAX_BYTES:
            self._drop(next(iter(self._answers)))

    def _drop(self, place: _Place) -> None:
        dropped = self._answers.pop(place, None)
        if dropped is not None:
            del self._versions[place]
            self._sizes[place[0]] -= dropped.size
            if not self._sizes[place[0]]:
                del self._sizes[place[0]]


def _encode(content: Any, etag: str) -> CachedAnswer:
    plain = msgspec.json.encode(content)
    compressed = gzip.compress(plain, 5) if len(plain) >= _MIN_COMPRESSED_BYTES else None
    return CachedAnswer(etag, plain, compressed)
