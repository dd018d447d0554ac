"""The state of a reflector: the objects of a resource, their version, and whether to list again. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec
import orjson

from windlass.backends.kubernetes.client.object_cache import Change, Key, ObjectCache, ObjectRevision, object_revision
from windlass.backends.kubernetes.client.paging import ObjectList
from windlass.backends.kubernetes.client.shallow_json import members
from windlass.backends.kubernetes.client.watch import Event
from windlass.jobs.kubernetes.bounded_integers import require_integer

T = TypeVar("T")
_NO_OBJECT = (msgspec.MsgspecError, ValueError, TypeError, KeyError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Malformed:
    """An object that could not be decoded, with the error. `revision` is None if its metadata cannot be read either."""

    revision: ObjectRevision | None
    why: str


@dataclass(slots=True)
class Mirror(Generic[T]):
    """The mirrored objects. An object on which `decode` raises is left out and reported."""

    decode: Callable[[bytes], T]
    malformed: Callable[[Malformed], None]
    cache: ObjectCache[T] = field(default_factory=ObjectCache)
    position: int = 0
    """The resource version up to which everything is known."""
    must_list: bool = True
    """Whether changes may have been missed, so that a list is needed."""
    kept: AbstractSet[Key] = frozenset()
    """Keys that lists do not include and that stay."""
    _malformed_keys: set[Key] = field(default_factory=set)
    """Keys of malformed objects of the current list."""

    def decode_listed(self, body: bytes) -> T | None:
        """Decodes an object of a list; None if it is malformed."""
        of, found = self._read(body)
        if found is None and of is not None:
            self._malformed_keys.add(of.key)
        return found

    def apply_list(self, listed: ObjectList[T]) -> list[Change[T]]:
        """Returns the changes of a list. A list older than the known version belongs to a restored cluster."""
        version = require_integer(listed.resource_version)
        changes = self.cache.replace(listed, kept=self._malformed_keys | self.kept, reset=version < self.position)
        self._malformed_keys = set()
        self.position, self.must_list = version, False
        return changes

    def clear(self) -> list[Change[T]]:
        """Returns the deletion of every object: the server has none any more, and lists them once it has some again."""
        self.must_list = True
        return [
            change
            for object in list(self.cache.objects.values())
            for change in self.cache.remove(object_revision(object))
        ]

    def apply_events(self, events: Iterable[Event]) -> list[Change[T]]:
        """Returns the changes of a batch of a watch. Ends early and sets `must_list` where the history was restored."""
        changes: list[Change[T]] = []
        for event in events:
            body = bytes(event.object)
            bookmark = event.type == "BOOKMARK"
            of, found = (None, None) if bookmark else self._read(body)
            version = _version(body) if of is None else of.version
            if 0 < version < self.position:
                self.must_list = True
                break
            self.position = version or self.position
            if of is not None and event.type == "DELETED":
                changes += self.cache.remove(of, found)
            elif of is not None and found is not None:
                changes += self.cache.update(of, found)
        return changes

    def _read(self, body: bytes) -> tuple[ObjectRevision | None, T | None]:
        try:
            found = self.decode(body)
            return object_revision(found), found
        except _NO_OBJECT as error:
            of = _lenient_revision(body)
            self.malformed(Malformed(of, f"{type(error).__name__}: {error}"))
            return of, None


def _lenient_revision(body: bytes) -> ObjectRevision | None:
    """Returns the revision of an object of which only some metadata can be read."""
    try:
        about = members(members(body)["metadata"])
        names = ("namespace", "name", "uid", "resourceVersion")
        return object_revision({"metadata": {name: orjson.loads(about[name]) for name in names if name in about}})
    except _NO_OBJECT:
        return None


def _version(body: bytes) -> int:
    """Returns the version of a bookmark, or of an object without a name; 0 without one."""
    try:
        return require_integer(orjson.loads(body)["metadata"]["resourceVersion"])
    except _NO_OBJECT:
        return 0
