"""The cached objects of one resource, never older than the newest seen in a watch, a list, or a write's reply.

Resource versions are compared as integers: the API promises that since KEP-5504 (1.35), and they have always been the
revisions of etcd. So the reply to a write can be applied at once, and its event, or an older one under way, has no
effect any more: readers of the cache see their own writes.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from windlass.backends.kubernetes.client.paging import Listed

T = TypeVar("T")
Key: TypeAlias = tuple[str, str]
"""Namespace ("" if it has none) and name."""
MAX_GRAVES = 10_000
"""Number of deleted objects remembered, so that no late reply restores one."""


class Change(NamedTuple, Generic[T]):
    """A change of one object. `before` is the cached object until now; for a deletion `object` is its last state."""

    kind: Literal["added", "modified", "deleted"]
    object: T
    before: T | None = None


class Marks(NamedTuple):
    """The identity and version of an object."""

    namespace: str
    name: str
    uid: str
    version: int

    @property
    def key(self) -> Key:
        """The key in the cache."""
        return self.namespace, self.name


class _HasMetadata(Protocol):
    @property
    def metadata(self) -> Any:
        """Metadata with namespace, name, uid and resource_version."""


def marks(object: Any) -> Marks:
    """Returns the marks of a struct or a dict. Raises KeyError, TypeError or ValueError for other data."""
    if isinstance(object, dict):
        metadata = object["metadata"]
        version = int(metadata["resourceVersion"])
        return Marks(metadata.get("namespace", ""), metadata["name"], metadata["uid"], version)
    said = cast("_HasMetadata", object).metadata
    return Marks(said.namespace, said.name, said.uid, int(said.resource_version))


class ObjectCache(Generic[T]):
    """The objects of one resource by namespace and name; read-only for other modules."""

    def __init__(self) -> None:
        self.objects: dict[Key, T] = {}
        self._graves: dict[str, int] = {}
        """Uid → version of the deletion."""

    def get(self, namespace: str, name: str) -> T | None:
        """Returns the cached object."""
        return self.objects.get((namespace, name))

    def put(self, object: T) -> list[Change[T]]:
        """Caches an object from a watch or from a write's reply. Returns no change if a newer one is cached."""
        return self.seen(marks(object), object)

    def seen(self, new: Marks, object: T) -> list[Change[T]]:
        """Like `put`, with the marks already read."""
        return self._put(new, object, trusted=False)

    def gone(self, of: Marks, last: T | None = None) -> list[Change[T]]:
        """Removes a deleted object. Another object of the same name stays."""
        self._bury(of.uid, of.version)
        held = self.objects.get(of.key)
        if held is None or marks(held).uid != of.uid:
            return []
        del self.objects[of.key]
        return [Change("deleted", held if last is None else last, held)]

    def listed(
        self, listed: Listed[T], *, spared: AbstractSet[Key] = frozenset(), reset: bool = False
    ) -> list[Change[T]]:
        """Replaces everything by a list as of one version. Returns the differences.

        Cached objects newer than the list stay: writes during the list; and those in `spared`, which exist in a state
        that
        could not be read. `reset`: the cluster was restored from a backup, so that earlier versions mean nothing.
        """
        if reset:
            self._graves.clear()
        there = [(marks(object), object) for object in listed.objects]
        changes = [change for of, object in there for change in self._put(of, object, trusted=reset)]
        present = spared | {of.key for of, _ in there}
        as_of = int(listed.resource_version)
        for key in [key for key in self.objects if key not in present]:
            held = self.objects[key]
            of = marks(held)
            if reset or of.version <= as_of:
                changes += self.gone(of._replace(version=as_of), held)
        return changes

    def _put(self, new: Marks, object: T, *, trusted: bool) -> list[Change[T]]:
        held = self.objects.get(new.key)
        if self._graves.get(new.uid, -1) >= new.version:
            return []
        if held is None:
            self.objects[new.key] = object
            return [Change("added", object)]
        old = marks(held)
        if new.version == old.version or (new.version < old.version and not trusted):
            return []
        self.objects[new.key] = object
        if old.uid == new.uid:
            return [Change("modified", object, held)]
        self._bury(old.uid, new.version)
        return [Change("deleted", held, held), Change("added", object)]

    def _bury(self, uid: str, version: int) -> None:
        self._graves[uid] = max(version, self._graves.pop(uid, version))
        if len(self._graves) > MAX_GRAVES:
            del self._graves[next(iter(self._graves))]
