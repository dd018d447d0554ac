"""The objects that names in jobs refer to: namespaces, priority classes, claims, volumes, storage classes, runtimes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.backends.kubernetes.client.object_cache import Change, apply_changes
from windlass.backends.kubernetes.client.objects import (
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    PriorityClass,
    StringMap,
)
from windlass.backends.kubernetes.cluster.admission_guard import AdmissionGuard
from windlass.backends.kubernetes.cluster.job_resolution import NamespaceLookups
from windlass.backends.kubernetes.cluster.managed_namespaces import unmanaged
from windlass.backends.kubernetes.cluster.topology_levels import Level
from windlass.backends.kubernetes.cluster.volumes import StorageClass, StorageObjects, storage_class
from windlass.core.model.policy import MAX_GRACE_MS
from windlass.core.model.queue import Queue
from windlass.jobs.kubernetes.manifest_reader import Manifest


@dataclass(frozen=True, slots=True)
class ChangedNames:
    """Namespaces whose jobs may resolve differently after a change. Volumes are checked job by job."""

    everywhere: bool = False
    namespaces: frozenset[str] = frozenset()

    def concern(self, namespace: str) -> bool:
        """Tells whether jobs of a namespace are concerned."""
        return self.everywhere or namespace in self.namespaces


class ClusterLookups:
    """Objects that names in jobs refer to, as the watches last saw them.

    `of` is the view for jobs of a namespace. Calls `hear` after a change. `levels`: the levels of the network as nodes
    have them. `queues`: the queues by name. `max_grace`: the longest grace of a job, in ms.
    """

    def __init__(
        self,
        hear: Callable[[], None],
        levels: Callable[[], tuple[Level, ...]],
        queues: Callable[[], Mapping[str, Queue]],
        max_grace: Callable[[], int] = lambda: MAX_GRACE_MS,
    ) -> None:
        self._hear, self._levels, self._queues, self._max_grace = hear, levels, queues, max_grace
        self._seen_levels, self._seen_access = levels(), _access_of(queues())
        self._everywhere = False
        self._guard = AdmissionGuard(fault="is not known yet")
        self._changed: set[str] = set()
        self._namespaces: dict[str, StringMap] = {}
        self._priorities: dict[str, PriorityClass] = {}
        self._claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._classes: dict[str, StorageClass] = {}
        self._runtimes: dict[tuple[str, str, str], Manifest] = {}
        self.on_runtimes: Callable[[Collection[str]], None] = lambda _names: None
        """Called after a change of the runtimes of TrainJobs, with their names."""

        self.only_labelled = False
        """Whether namespaces without our label are left alone."""

    def of(self, namespace: str) -> NamespaceLookups:
        """Returns the current view; its contents continue to change."""
        stock = StorageObjects(self._claims, self._volumes, self._classes)
        labels = self._namespaces.get(namespace)
        fault = unmanaged(namespace, labels, only_labelled=self.only_labelled)
        levels, queues, grace = self._levels(), self._queues(), self._max_grace()
        return NamespaceLookups(labels, self._priorities, stock, levels, fault, queues, self._guard, grace)

    def runtime(self, kind: str, namespace: str, name: str) -> Manifest | None:
        """Returns the runtime of TrainJobs with this kind, namespace ("" if it has none) and name; None without one."""
        return self._runtimes.get((kind, namespace, name))

    def has_other_levels(self) -> bool:
        """Tells whether the levels of the network have changed since `take_changed`."""
        return self._levels() != self._seen_levels

    def has_other_access(self) -> bool:
        """Tells whether, since `take_changed`, another set of jobs may use some queue."""
        return _access_of(self._queues()) != self._seen_access

    def take_changed(self) -> ChangedNames:
        """Returns the names that may resolve differently since the last call."""
        everywhere = self._everywhere or self.has_other_levels() or self.has_other_access()
        self._seen_levels, self._seen_access, self._everywhere = self._levels(), _access_of(self._queues()), False
        changed, self._changed = frozenset(self._changed), set()
        return ChangedNames(everywhere, changed)

    def see_guard(self, guard: AdmissionGuard) -> bool:
        """Handles the guard of admission as it is now. Returns whether it is another one than before."""
        if guard == self._guard:
            return False
        self._guard, self._everywhere = guard, True
        self._hear()
        return True

    def see_namespaces(self, changes: Sequence[Change[Namespace]]) -> None:
        """Handles changes of namespaces."""
        for change in changes:
            name = change.object.metadata.name
            before = self._namespaces.pop(name, None)
            if change.kind != "deleted":
                self._namespaces[name] = change.object.metadata.labels
            if self._namespaces.get(name) != before:
                self._changed.add(name)
        self._hear()

    def see_priorities(self, changes: Sequence[Change[PriorityClass]]) -> None:
        """Handles changes of priority classes."""
        before = dict(self._priorities)
        apply_changes(self._priorities, changes, _name_of)
        self._everywhere |= self._priorities != before
        self._hear()

    def see_claims(self, changes: Sequence[Change[PersistentVolumeClaim]]) -> None:
        """Handles changes of claims."""
        apply_changes(self._claims, changes, lambda claim: (claim.metadata.namespace, claim.metadata.name))
        self._hear()

    def see_volumes(self, changes: Sequence[Change[PersistentVolume]]) -> None:
        """Handles changes of volumes."""
        apply_changes(self._volumes, changes, _name_of)
        self._hear()

    def see_classes(self, changes: Sequence[Change[dict[str, Any]]]) -> None:
        """Handles changes of storage classes."""
        for change in changes:
            name = change.object["metadata"]["name"]
            self._classes.pop(name, None)
            if change.kind != "deleted":
                self._classes[name] = storage_class(change.object)
        self._hear()

    def see_runtimes(self, kind: str, changes: Sequence[Change[Manifest]]) -> None:
        """Handles changes of the runtimes of one kind."""
        of_kind = [change._replace(object={**change.object, "kind": kind}) for change in changes]
        apply_changes(self._runtimes, of_kind, _runtime_key)
        self.on_runtimes({change.object["metadata"]["name"] for change in changes})


def _runtime_key(found: Manifest) -> tuple[str, str, str]:
    about = found["metadata"]
    return found["kind"], about.get("namespace", ""), about["name"]


def _name_of(found: PriorityClass | PersistentVolume) -> str:
    return found.metadata.name


def _access_of(queues: Mapping[str, Queue]) -> dict[str, tuple[object, object]]:
    """Returns what decides which jobs a queue takes, by queue."""
    return {name: (queue.namespace_selector, queue.max_priority) for name, queue in queues.items()}
