"""The watches of a world: one for each kind of object that means something to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Never, TypeVar

import orjson

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.client import resources as r
from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.mirror import Malformed, Mirror
from windlass.backends.kubernetes.client.object_cache import Change, ObjectCache
from windlass.backends.kubernetes.client.reflector import reflect
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.cluster.cluster_state import POLICIES, QUEUES, RESERVATIONS, Manifests
from windlass.backends.kubernetes.external import dialects
from windlass.backends.kubernetes.served_kinds import WATCHED
from windlass.jobs.kubernetes.pods.pod_assembly import SCHEDULER

T = TypeVar("T")
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)


async def watch_all(world: KubernetesBackend, served: Sequence[Resource], ready: Callable[[], None]) -> Never:
    """Keep a world informed until cancelled.

    `served`: which of the kinds the cluster has. `ready` is called once, when everything has been listed.
    """
    watches = Watches(world, ready)
    wanted = [
        watches.of(r.PODS, objects.pod, world.pods.apply, world.pods.fresh),
        watches.of(r.NODES, objects.node, watches.nodes),
        watches.of(r.JOBS, dialects.group_object, world.router.see_jobs, world.job_objects[r.JOBS]),
        watches.of(r.NAMESPACES, objects.namespace, world.monitor.lookups.see_namespaces),
        watches.of(r.PRIORITY_CLASSES, objects.priority_class, world.monitor.lookups.see_priorities),
        watches.of(r.CLAIMS, objects.claim, world.monitor.lookups.see_claims),
        watches.of(r.VOLUMES, objects.volume, world.monitor.lookups.see_volumes),
        watches.of(STORAGE_CLASSES, orjson.loads, world.monitor.lookups.see_classes),
        *(watches.optional(kind) for kind in WATCHED if kind in served),
    ]
    await asyncio.gather(*wanted)
    raise AssertionError("unreachable: watches do not end")


async def watch_more(world: KubernetesBackend, served: Sequence[Resource]) -> Never:
    """The same for kinds that came later."""
    watches = Watches(world, lambda: None)
    await asyncio.gather(*(watches.optional(kind) for kind in served))
    raise AssertionError("unreachable: watches do not end")


async def catch_up(world: KubernetesBackend) -> None:
    """Hear at once what watches may not have told yet: jobs and pods of ours, as they are now.

    A follower's watch may hang while its leader works on, and the states in the objects are all that the next leader
    knows. Raises WorldError.
    """
    await asyncio.gather(_pods(world), *(_jobs(world, kind) for kind in list(world.job_objects)))


async def _pods(world: KubernetesBackend) -> None:
    fresh = world.pods.fresh
    mirror = Mirror(objects.pod, _told_by_the_watch, fresh)
    listed = await world.connection.listed(r.PODS, mirror.decoded, fields=f"spec.schedulerName={SCHEDULER}")
    mirror.spared = {key for key, pod in fresh.objects.items() if pod.spec.scheduler_name != SCHEDULER}
    world.pods.apply(mirror.listed(listed))


async def _jobs(world: KubernetesBackend, kind: Resource) -> None:
    decode, apply = (
        (dialects.group_object, world.router.see_jobs) if kind == r.JOBS else (orjson.loads, jobs(world, kind))
    )
    mirror = Mirror(decode, _told_by_the_watch, world.job_objects[kind])
    try:
        listed = await world.connection.listed(kind, mirror.decoded)
    except ApiError as error:
        if not error.is_missing:
            raise
        return  # the kind is not served any more
    apply(mirror.listed(listed))


def _told_by_the_watch(_: Malformed) -> None:
    pass


def jobs(world: KubernetesBackend, resource: Resource) -> Callable[[Sequence[Change[dict[str, Any]]]], None]:
    """For changes of jobs of one kind."""

    def apply(changes: Sequence[Change[dict[str, Any]]]) -> None:
        for change in changes:
            if change.kind == "deleted":
                world.jobs.lose(change.object["metadata"]["uid"])
            else:
                world.jobs.see(resource, change.object)

    return apply


class Watches:
    """What the watches of one world share: who has listed everything, and what is out of order."""

    def __init__(self, world: KubernetesBackend, ready: Callable[[], None]) -> None:
        self._world, self._ready = world, ready
        self._behind = 0

    def of(
        self,
        resource: Resource,
        decode: Callable[[bytes], T],
        apply: Callable[[Sequence[Change[T]]], None],
        fresh: ObjectCache[T] | None = None,
    ) -> Coroutine[Any, Any, Never]:
        """One watch, to be run."""
        self._behind += 1
        return reflect(
            self._world.connection,
            resource,
            decode=decode,
            apply=apply,
            synced=self._synced,
            fresh=fresh,
            malformed=partial(self._malformed, resource),
            trouble=self._trouble,
        )

    def optional(self, kind: Resource) -> Coroutine[Any, Any, Never]:
        """The watch of one of WATCHED."""
        cluster = self._world.cluster
        held = {QUEUES: cluster.queues, POLICIES: cluster.policies, RESERVATIONS: cluster.reservations}
        if kind in held:
            return self.of(kind, orjson.loads, self.declared(held[kind]))
        if kind in dialects.OPTIONAL:
            return self.of(kind, dialects.group_object, self.groups(kind))
        return self.of(kind, orjson.loads, jobs(self._world, kind), self._world.job_objects[kind])

    def nodes(self, changes: Sequence[Change[objects.Node]]) -> None:
        """Nodes have come, changed or gone."""
        for change in changes:
            if change.kind == "deleted":
                self._world.cluster.lose_node(change.object.metadata.name)
            else:
                self._world.cluster.see_node(change.object)
        self._world.monitor.check()

    def groups(self, resource: Resource) -> Callable[[Sequence[Change[dict[str, Any]]]], None]:
        """For objects that say what gangs of others need."""

        def apply(changes: Sequence[Change[dict[str, Any]]]) -> None:
            for change in changes:
                self._world.external.see_object(resource, change.object, there=change.kind != "deleted")

        return apply

    def declared(self, held: Manifests) -> Callable[[Sequence[Change[dict[str, Any]]]], None]:
        """For what is declared for the whole cluster."""

        def apply(changes: Sequence[Change[dict[str, Any]]]) -> None:
            for change in changes:
                held.pop(change.object["metadata"]["name"], None)
                if change.kind != "deleted":
                    held[change.object["metadata"]["name"]] = change.object
            self._world.cluster.declare()
            self._world.monitor.check()

        return apply

    def _synced(self) -> None:
        self._behind -= 1
        if self._behind == 0:
            self._ready()

    def _malformed(self, resource: Resource, found: Malformed) -> None:
        name = f"{found.marks.namespace}/{found.marks.name}" if found.marks else "without a name"
        self._world.on_trouble(f"{resource.kind} {name} cannot be read, and is left out: {found.why}")

    def _trouble(self, error: BackendError | None) -> None:
        if error is not None:
            self._world.on_trouble(f"the API server: {error}")
