"""What a reflector knows of its resource: the objects, up to which version, and whether it must list again. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec
import orjson

from windlass.backends.kubernetes.client.object_cache import Change, Key, Marks, ObjectCache, marks
from windlass.backends.kubernetes.client.paging import Listed
from windlass.backends.kubernetes.client.watch import Event

T = TypeVar("T")
_NO_OBJECT = (msgspec.MsgspecError, ValueError, TypeError, KeyError, AttributeError)


@dataclass(frozen=True, slots=True)
class Malformed:
    """An object that could not be decoded, and why. `marks` is None if not even its metadata could be read."""

    marks: Marks | None
    why: str


@dataclass(slots=True)
class Mirror(Generic[T]):
    """`decode` may raise what it likes of the ordinary errors of bad data; the object is left out and told."""

    decode: Callable[[bytes], T]
    malformed: Callable[[Malformed], None]
    fresh: ObjectCache[T] = field(default_factory=ObjectCache)
    position: int = 0
    """The resource version up to which everything is known."""
    behind: bool = True
    """Something may have been missed: only a list tells."""
    spared: AbstractSet[Key] = frozenset()
    """What is held and asked for by no list: it stays."""
    _odd: set[Key] = field(default_factory=set)
    """What is malformed in the list that is being read."""

    def decoded(self, body: bytes) -> T | None:
        """An object of a list; None for what is malformed."""
        of, found = self._read(body)
        if found is None and of is not None:
            self._odd.add(of.key)
        return found

    def listed(self, listed: Listed[T]) -> list[Change[T]]:
        """What a list changes. One that ends before what was known belongs to a history that began anew."""
        version = int(listed.resource_version)
        changes = self.fresh.listed(listed, spared=self._odd | self.spared, reset=version < self.position)
        self._odd = set()
        self.position, self.behind = version, False
        return changes

    def heard(self, events: Iterable[Event]) -> list[Change[T]]:
        """What a batch of a watch changes. Ends early, and `behind`, where the history began anew."""
        changes: list[Change[T]] = []
        for event in events:
            body = bytes(event.object)
            bookmark = event.type == "BOOKMARK"
            of, found = (None, None) if bookmark else self._read(body)
            version = _version(body) if of is None else of.version
            if 0 < version < self.position:
                self.behind = True
                break
            self.position = version or self.position
            if of is not None and event.type == "DELETED":
                changes += self.fresh.gone(of, found)
            elif of is not None and found is not None:
                changes += self.fresh.seen(of, found)
        return changes

    def _read(self, body: bytes) -> tuple[Marks | None, T | None]:
        try:
            found = self.decode(body)
            return marks(found), found
        except _NO_OBJECT as error:
            of = _lenient(body)
            self.malformed(Malformed(of, f"{type(error).__name__}: {error}"))
            return of, None


def _lenient(body: bytes) -> Marks | None:
    try:
        return marks(orjson.loads(body))
    except _NO_OBJECT:
        return None


def _version(body: bytes) -> int:
    """Of a bookmark, or of an object without a name; 0 if it has none."""
    try:
        return int(orjson.loads(body)["metadata"]["resourceVersion"])
    except _NO_OBJECT:
        return 0
