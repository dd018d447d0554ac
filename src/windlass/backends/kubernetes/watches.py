"""The watches of a backend: one for each kind of object that it uses."""

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
from windlass.backends.kubernetes.client.object_cache import Change, ObjectCache, apply_changes, object_revision
from windlass.backends.kubernetes.client.object_reference import ObjectReference, reference_to
from windlass.backends.kubernetes.client.reflector import reflect
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.cluster.cluster_state import POLICIES, QUEUES, RESERVATIONS, Manifests
from windlass.backends.kubernetes.external import dialects
from windlass.backends.kubernetes.kueue.workload_object import FLAVORS, WORKLOADS
from windlass.backends.kubernetes.schedules.schedule_turn import RUNS, SCHEDULES
from windlass.backends.kubernetes.served_kinds import RUNTIMES, WATCHED, KindRemoval
from windlass.jobs.kubernetes.pods.pod_assembly import GENERATION, SCHEDULER

T = TypeVar("T")
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)


async def watch_all(backend: KubernetesBackend, served: Sequence[Resource], ready: Callable[[], None]) -> Never:
    """Keeps a backend up to date until cancelled.

    `served`: the kinds that the cluster serves. `ready` is called once, when everything has been listed.
    """
    watches = Watches(backend, ready)
    wanted = [
        watches.of(r.PODS, objects.pod, backend.pods.apply, backend.pods.fresh),
        watches.of(r.NODES, objects.node, watches.nodes),
        watches.of(r.JOBS, dialects.group_object, backend.see_jobs, backend.job_objects[r.JOBS]),
        watches.of(r.NAMESPACES, objects.namespace, backend.monitor.lookups.see_namespaces),
        watches.of(r.PRIORITY_CLASSES, objects.priority_class, backend.monitor.lookups.see_priorities),
        watches.of(r.CLAIMS, objects.claim, backend.monitor.lookups.see_claims),
        watches.of(r.VOLUMES, objects.volume, backend.monitor.lookups.see_volumes),
        watches.of(STORAGE_CLASSES, orjson.loads, backend.monitor.lookups.see_classes),
        *(watches.optional(kind) for kind in WATCHED if kind in served),
    ]
    await asyncio.gather(*wanted)
    raise AssertionError("unreachable: watches do not end")


async def watch_more(backend: KubernetesBackend, served: Sequence[Resource]) -> Never:
    """Does the same for kinds that the cluster began to serve later."""
    watches = Watches(backend, lambda: None)
    await asyncio.gather(*(watches.optional(kind) for kind in served))
    raise AssertionError("unreachable: watches do not end")


async def catch_up(backend: KubernetesBackend) -> None:
    """Lists our jobs and pods at once, to learn what the watches may not have reported yet.

    A follower's watch may hang while its leader continues, and the states in the objects are all that the next leader
    knows. Raises BackendError.
    """
    await asyncio.gather(_pods(backend), *(_jobs(backend, kind) for kind in list(backend.job_objects)))


async def _pods(backend: KubernetesBackend) -> None:
    fresh = backend.pods.fresh
    mirror = Mirror(objects.pod, _reported_by_the_watch, fresh)
    listed = await backend.connection.list_decoded(
        r.PODS, mirror.decode_listed, fields=f"spec.schedulerName={SCHEDULER}"
    )
    mirror.kept = {key for key, pod in fresh.objects.items() if pod.spec.scheduler_name != SCHEDULER}
    contained(backend, r.PODS, backend.pods.apply)(mirror.apply_list(listed))
    elsewhere = Mirror(objects.pod, _reported_by_the_watch, fresh)
    listed = await backend.connection.list_decoded(
        r.PODS, elsewhere.decode_listed, selector=GENERATION, fields=f"spec.schedulerName!={SCHEDULER}"
    )
    elsewhere.kept = {key for key, pod in fresh.objects.items() if not _is_placed_elsewhere(pod)}
    contained(backend, r.PODS, backend.pods.apply)(elsewhere.apply_list(listed))


def _is_placed_elsewhere(pod: objects.Pod) -> bool:
    """Tells whether a pod of a job of ours is for another scheduler."""
    return pod.spec.scheduler_name != SCHEDULER and GENERATION in pod.metadata.labels


async def _jobs(backend: KubernetesBackend, kind: Resource) -> None:
    decode, apply = (dialects.group_object, backend.see_jobs) if kind == r.JOBS else (orjson.loads, jobs(backend, kind))
    mirror = Mirror(decode, _reported_by_the_watch, backend.job_objects[kind])
    try:
        listed = await backend.connection.list_decoded(kind, mirror.decode_listed)
    except ApiError as error:
        if not error.is_missing:
            raise
        return  # the kind is no longer served
    contained(backend, kind, apply)(mirror.apply_list(listed))


def _reported_by_the_watch(_: Malformed) -> None:
    pass


def jobs(backend: KubernetesBackend, resource: Resource) -> Callable[[Sequence[Change[dict[str, Any]]]], None]:
    """Returns the function that applies changes of jobs of one kind."""

    def apply(changes: Sequence[Change[dict[str, Any]]]) -> None:
        for change in changes:
            if change.kind == "deleted":
                backend.job_reader.delete(reference_to(resource, change.object).owner_key)
            else:
                backend.job_reader.update(resource, change.object)
            if resource == RUNS:
                backend.schedules.see_run(change)

    return apply


def contained(
    backend: KubernetesBackend, resource: Resource, apply: Callable[[Sequence[Change[T]]], None]
) -> Callable[[Sequence[Change[T]]], None]:
    """Returns a function that applies changes one by one: what one object raises ends with that object."""

    def apply_one(change: Change[T]) -> None:
        of = object_revision(change.object)
        about = ObjectReference(resource, of.namespace, of.name, of.uid)
        with backend.faults.contain(about, "apply", partial(apply_one, change)):
            apply([change])

    def apply_each(changes: Sequence[Change[T]]) -> None:
        for change in changes:
            apply_one(change)

    return apply_each


class Watches:
    """Shared state of the watches of one backend: how many have not listed yet, and errors."""

    def __init__(self, backend: KubernetesBackend, ready: Callable[[], None]) -> None:
        self._backend, self._ready = backend, ready
        self._behind = 0

    def of(
        self,
        resource: Resource,
        decode: Callable[[bytes], T],
        apply: Callable[[Sequence[Change[T]]], None],
        fresh: ObjectCache[T] | None = None,
        *,
        may_be_removed: bool = False,
        served: Callable[[bool], None] | None = None,
    ) -> Coroutine[Any, Any, Never]:
        """Returns one watch to be run. `may_be_removed`: the kind has a definition, which may be deleted.

        `served` is called when that definition is removed, or exists again.
        """
        self._behind += 1
        removal = KindRemoval(self._backend.connection, resource, changed=served)
        return reflect(
            self._backend.connection,
            resource,
            decode=decode,
            apply=contained(self._backend, resource, apply),
            synced=self._synced,
            cache=fresh,
            malformed=partial(self._malformed, resource),
            trouble=partial(self._trouble, removal),
            is_removed=removal.is_removed if may_be_removed else None,
        )

    def optional(self, kind: Resource) -> Coroutine[Any, Any, Never]:
        """Returns the watch of one of WATCHED."""
        cluster = self._backend.cluster
        held = {QUEUES: cluster.queues, POLICIES: cluster.policies, RESERVATIONS: cluster.reservations}
        of = partial(self.of, kind, may_be_removed=True)
        if kind in held:
            return of(orjson.loads, self.declared(held[kind]))
        if kind in RUNTIMES:
            return of(orjson.loads, partial(self._backend.monitor.lookups.see_runtimes, kind.kind))
        if kind == WORKLOADS:
            kueue = self._backend.kueue
            kueue.see_served(is_served=True)
            return of(orjson.loads, kueue.see_workloads, served=lambda there: kueue.see_served(is_served=there))
        seen = {FLAVORS: self._backend.kueue.see_flavors, SCHEDULES: self._backend.schedules.see}
        if kind in seen:
            return of(orjson.loads, seen[kind])
        if kind in dialects.OPTIONAL:
            return of(dialects.group_object, self.groups(kind))
        return of(orjson.loads, jobs(self._backend, kind), self._backend.job_objects[kind])

    def nodes(self, changes: Sequence[Change[objects.Node]]) -> None:
        """Applies changes of nodes."""
        for change in changes:
            if change.kind == "deleted":
                self._backend.cluster.lose_node(change.object.metadata.name)
            else:
                self._backend.cluster.see_node(change.object)
        self._backend.job_reader.read_without_nodes()
        self._backend.monitor.check()

    def groups(self, resource: Resource) -> Callable[[Sequence[Change[dict[str, Any]]]], None]:
        """Returns the function that applies changes of objects that describe external gangs."""

        def apply(changes: Sequence[Change[dict[str, Any]]]) -> None:
            for change in changes:
                self._backend.see_group(resource, change.object, there=change.kind != "deleted")

        return apply

    def declared(self, held: Manifests) -> Callable[[Sequence[Change[dict[str, Any]]]], None]:
        """Returns the function that applies changes of cluster-wide configuration objects."""

        def apply(changes: Sequence[Change[dict[str, Any]]]) -> None:
            apply_changes(held, changes, lambda manifest: str(manifest["metadata"]["name"]))
            self._backend.cluster.declare()
            self._backend.monitor.check()

        return apply

    def _synced(self) -> None:
        self._behind -= 1
        if self._behind == 0:
            self._ready()

    def _malformed(self, resource: Resource, found: Malformed) -> None:
        if (of := found.revision) is None:
            self._backend.faults.counts[resource.kind] += 1
            self._backend.on_trouble(f"{resource.kind} without a name cannot be read and is ignored: {found.why}")
            return
        about = ObjectReference(resource, of.namespace, of.name, of.uid)
        self._backend.faults.note(about, f"cannot be read and is ignored: {found.why}")

    def _trouble(self, removal: KindRemoval, error: BackendError | None) -> None:
        if error is None:
            removal.note_served()
        else:
            self._backend.on_trouble(f"the API server: {error}")
