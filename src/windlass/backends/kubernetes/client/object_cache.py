"""The cached objects of one resource, never older than the newest seen in a watch, a list, or a write's reply.

Resource versions are compared as integers: the API promises that since KEP-5504 (1.35), and they have always been the
revisions of etcd. So the reply to a write can be applied at once, and its event, or an older one under way, has no
effect any more: readers of the cache see their own writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from windlass.backends.kubernetes.client.paging import ObjectList
from windlass.jobs.kubernetes.bounded_integers import require_integer

T = TypeVar("T")
K = TypeVar("K")
Key: TypeAlias = tuple[str, str]
"""Namespace ("" if it has none) and name."""
MAX_TOMBSTONES = 10_000
"""Number of deleted objects remembered, so that no late reply restores one."""


class Change(NamedTuple, Generic[T]):
    """A change of one object. `before` is the cached object until now; for a deletion `object` is its last state."""

    kind: Literal["added", "modified", "deleted"]
    object: T
    before: T | None = None


def apply_changes(kept: dict[K, T], changes: Iterable[Change[T]], key_of: Callable[[T], K]) -> None:
    """Applies changes to objects that are kept by a key."""
    for change in changes:
        key = key_of(change.object)
        kept.pop(key, None)
        if change.kind != "deleted":
            kept[key] = change.object


class ObjectRevision(NamedTuple):
    """The identity and the resource version of an object."""

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


def object_revision(object: Any) -> ObjectRevision:
    """Returns the revision of a struct or a dict. Raises KeyError, TypeError or ValueError for other data."""
    if isinstance(object, dict):
        metadata = object["metadata"]
        version = require_integer(metadata["resourceVersion"])
        return ObjectRevision(metadata.get("namespace", ""), metadata["name"], metadata["uid"], version)
    metadata = cast("_HasMetadata", object).metadata
    return ObjectRevision(metadata.namespace, metadata.name, metadata.uid, require_integer(metadata.resource_version))


class ObjectCache(Generic[T]):
    """The objects of one resource by namespace and name; read-only for other modules."""

    def __init__(self) -> None:
        self.objects: dict[Key, T] = {}
        self._tombstones: dict[str, int] = {}
        """Uid → version of the deletion."""

    def get(self, namespace: str, name: str) -> T | None:
        """Returns the cached object."""
        return self.objects.get((namespace, name))

    def put(self, object: T) -> list[Change[T]]:
        """Caches an object from a watch or from a write's reply. Returns no change if a newer one is cached."""
        return self.update(object_revision(object), object)

    def update(self, new: ObjectRevision, object: T) -> list[Change[T]]:
        """Like `put`, with the revision already read."""
        return self._put(new, object, trusted=False)

    def remove(self, of: ObjectRevision, last: T | None = None) -> list[Change[T]]:
        """Removes a deleted object. Another object of the same name stays."""
        self._remember_deletion(of.uid, of.version)
        held = self.objects.get(of.key)
        if held is None or object_revision(held).uid != of.uid:
            return []
        del self.objects[of.key]
        return [Change("deleted", held if last is None else last, held)]

    def replace(
        self, listed: ObjectList[T], *, kept: AbstractSet[Key] = frozenset(), reset: bool = False
    ) -> list[Change[T]]:
        """Replaces everything by a list as of one version. Returns the differences.

        Cached objects newer than the list stay: writes during the list; and those in `kept`, which exist in a state
        that could not be read. `reset`: the cluster was restored from a backup, so that earlier versions mean nothing.
        """
        if reset:
            self._tombstones.clear()
        there = [(object_revision(object), object) for object in listed.objects]
        changes = [change for of, object in there for change in self._put(of, object, trusted=reset)]
        present = kept | {of.key for of, _ in there}
        as_of = require_integer(listed.resource_version)
        for key in [key for key in self.objects if key not in present]:
            held = self.objects[key]
            of = object_revision(held)
            if reset or of.version <= as_of:
                changes += self.remove(of._replace(version=as_of), held)
        return changes

    def _put(self, new: ObjectRevision, object: T, *, trusted: bool) -> list[Change[T]]:
        held = self.objects.get(new.key)
        if self._tombstones.get(new.uid, -1) >= new.version:
            return []
        if held is None:
            self.objects[new.key] = object
            return [Change("added", object)]
        old = object_revision(held)
        if new.version == old.version or (new.version < old.version and not trusted):
            return []
        self.objects[new.key] = object
        if old.uid == new.uid:
            return [Change("modified", object, held)]
        self._remember_deletion(old.uid, new.version)
        return [Change("deleted", held, held), Change("added", object)]

    def _remember_deletion(self, uid: str, version: int) -> None:
        self._tombstones[uid] = max(version, self._tombstones.pop(uid, version))
        if len(self._tombstones) > MAX_TOMBSTONES:
            del self._tombstones[next(iter(self._tombstones))]
