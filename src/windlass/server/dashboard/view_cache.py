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
    _running: dict[_Place, asyncio.Event] = field(default_factory=dict)
    """The end of each computation under way."""

    @property
    def size(self) -> int:
        """Bytes of all kept answers."""
        return self._sizes.total()

    async def answer(self, audience: str, view: View, version: int) -> CachedAnswer:
        """The answer of a view at this version or a later one, computed or kept. Raises what the view raises.

        `audience`: key of what the visitor may read. Answers of one audience are never given to another.
        A visitor that waits for its turn delays no other visitor who asks for the same.
        """
        place = (audience, view.key)
        while (found := self._find_kept(place, version)) is None:
            # 1. another request computes an answer
            if (running := self._running.get(place)) is not None:
                await running.wait()
                continue
            # 2. this request computes it, unless another one has begun before the turn of this one
            async with view.turn():
                if place not in self._running and self._find_kept(place, version) is None:
                    return await self._compute_alone(place, view, version)
        return found

    def _find_kept(self, place: _Place, version: int) -> CachedAnswer | None:
        if self._versions.get(place, -1) < version:
            return None
        self._answers.move_to_end(place)
        return self._answers[place]

    async def _compute_alone(self, place: _Place, view: View, version: int) -> CachedAnswer:
        """Computes and keeps an answer; requests for the same wait for the end."""
        ended = self._running[place] = asyncio.Event()
        try:
            found = await self._compute(place, view, version)
            self._keep(place, found, version)
        finally:
            del self._running[place]
            ended.set()
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
