"""Store of the pods of the cluster, by key and by owner, with subscribers for changes and for deletions."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from windlass.backends.kubernetes.client.object_cache import Change, Key, ObjectCache
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.owners import OwnerKey


class PodStore:
    """Cache of pods; an older version never replaces a newer one.

    `apply` takes a watch's changes, `learn` replies to own writes.
    """

    def __init__(
        self, hear: Callable[[Pod, bool], None], release: Callable[[Pod, OwnerKey], None] = lambda _pod, _owner: None
    ) -> None:
        self.fresh: ObjectCache[Pod] = ObjectCache()
        self._hear = hear
        """Called with a pod as it is now, or as it was at last, and whether it exists."""
        self._release = release
        """Called first with a pod that an object controls no more, and the key of that object."""
        self.namespaces: set[str] = set()
        """Namespaces of all pods that were ever seen."""
        self._owners: dict[Key, OwnerKey] = {}
        self._owned: defaultdict[OwnerKey, dict[Key, Pod]] = defaultdict(dict)
        self._leaving: dict[Key, list[asyncio.Future[None]]] = {}

    def get(self, namespace: str, name: str) -> Pod | None:
        """Returns the pod as it was last seen, or None."""
        return self.fresh.get(namespace, name)

    def owned(self, owner: OwnerKey) -> Iterable[Pod]:
        """Returns the pods that an object controls."""
        return self._owned[owner].values() if owner in self._owned else ()

    def all(self) -> Iterable[Pod]:
        """Returns every pod of the cluster."""
        return self.fresh.objects.values()

    def learn(self, pod: Pod) -> None:
        """Records a pod from the API server's reply to a write."""
        self.apply(self.fresh.put(pod))

    def apply(self, changes: Sequence[Change[Pod]]) -> None:
        """Applies changes of `fresh`."""
        for change in changes:
            pod = change.object
            self.namespaces.add(pod.metadata.namespace)
            if change.kind == "deleted":
                self._forget(pod)
            else:
                owner, key = pod.metadata.controller, key_of(pod)
                if owner != self._owners.get(key):
                    self._change_owner(pod, owner)
                if owner is not None:
                    self._owned[owner][key] = pod
            self._hear(pod, change.kind != "deleted")

    async def gone(self, key: Key) -> None:
        """Waits until no pod of this name is known."""
        while key in self.fresh.objects:
            left = asyncio.get_running_loop().create_future()
            waiting = self._leaving.setdefault(key, [])
            waiting.append(left)
            try:
                await left
            finally:
                waiting.remove(left)

    def _change_owner(self, pod: Pod, owner: OwnerKey | None) -> None:
        """Files a pod under its owner. Garbage collection takes the owner from the pods of an orphaned object."""
        key = key_of(pod)
        if (before := self._owners.get(key)) is not None:
            self._remove(key, before)
            self._release(pod, before)
        if owner is not None:
            self._owners[key] = owner

    def _remove(self, key: Key, owner: OwnerKey) -> None:
        del self._owners[key]
        owned = self._owned[owner]
        del owned[key]
        if not owned:
            del self._owned[owner]

    def _forget(self, pod: Pod) -> None:
        key = key_of(pod)
        if (owner := self._owners.get(key)) is not None:
            self._remove(key, owner)
        for waiting in self._leaving.pop(key, ()):
            if not waiting.done():
                waiting.set_result(None)


def key_of(pod: Pod) -> Key:
    """Returns the namespace and name of a pod; another pod of the same key exists only after this one is gone."""
    return pod.metadata.namespace, pod.metadata.name
