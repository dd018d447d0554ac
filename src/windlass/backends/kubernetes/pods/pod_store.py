"""The pods that are known, by key and by what made them; who waits for one to go; who hears of each change."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from windlass.backends.kubernetes.client.object_cache import Change, Key, ObjectCache
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.owners import controller_of


class PodStore:
    """A watch's changes go to `apply`, replies to own writes to `learn`: neither makes anything older than it was."""

    def __init__(self, hear: Callable[[Pod, bool], None]) -> None:
        self.fresh: ObjectCache[Pod] = ObjectCache()
        self._hear = hear
        """Hears of a pod as it is now, or as it was at last, and whether it is there."""
        self._owned: defaultdict[str, dict[Key, Pod]] = defaultdict(dict)
        self._leaving: dict[Key, list[asyncio.Future[None]]] = {}

    def get(self, namespace: str, name: str) -> Pod | None:
        """The pod as it was last seen, or None."""
        return self.fresh.get(namespace, name)

    def owned(self, uid: str) -> Iterable[Pod]:
        """The pods that an object controls."""
        return self._owned[uid].values() if uid in self._owned else ()

    def all(self) -> Iterable[Pod]:
        """Every pod of the cluster."""
        return self.fresh.objects.values()

    def learn(self, pod: Pod) -> None:
        """What the API server answered to a write of ours."""
        self.apply(self.fresh.put(pod))

    def apply(self, changes: Sequence[Change[Pod]]) -> None:
        """What has changed in `fresh`."""
        for change in changes:
            pod = change.object
            if change.kind == "deleted":
                self._forget(pod)
            elif owner := controller_of(pod):
                self._owned[owner][key_of(pod)] = pod
            self._hear(pod, change.kind != "deleted")

    async def gone(self, key: Key) -> None:
        """Wait until no pod of this name is known."""
        while key in self.fresh.objects:
            left = asyncio.get_running_loop().create_future()
            waiting = self._leaving.setdefault(key, [])
            waiting.append(left)
            try:
                await left
            finally:
                waiting.remove(left)

    def _forget(self, pod: Pod) -> None:
        key, owner = key_of(pod), controller_of(pod)
        if owner and (owned := self._owned.get(owner)) is not None:
            owned.pop(key, None)
            if not owned:
                del self._owned[owner]
        for waiting in self._leaving.pop(key, ()):
            if not waiting.done():
                waiting.set_result(None)


def key_of(pod: Pod) -> Key:
    """Where it stands; another pod of the same key comes only after it has gone."""
    return pod.metadata.namespace, pod.metadata.name
