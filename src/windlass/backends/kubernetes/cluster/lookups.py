"""The objects that names in jobs refer to: namespaces, priority classes, claims, volumes and storage classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from windlass.backends.kubernetes.client.object_cache import Change
from windlass.backends.kubernetes.client.objects import (
    NONE,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    PriorityClass,
    Words,
)
from windlass.backends.kubernetes.cluster.job_resolution import Surroundings
from windlass.backends.kubernetes.cluster.volumes import Stock, StorageClass, storage_class


class ClusterLookups:
    """Updated by watches; `of` is the view for jobs of a namespace. Calls `hear` after a change."""

    def __init__(self, hear: Callable[[], None]) -> None:
        self._hear = hear
        self._namespaces: dict[str, Words] = {}
        self._priorities: dict[str, PriorityClass] = {}
        self._claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._classes: dict[str, StorageClass] = {}

    def of(self, namespace: str) -> Surroundings:
        """Returns the current view; its contents continue to change."""
        stock = Stock(self._claims, self._volumes, self._classes)
        return Surroundings(self._namespaces.get(namespace, NONE), self._priorities, stock)

    def see_namespaces(self, changes: Sequence[Change[Namespace]]) -> None:
        """Handles changes of namespaces."""
        for change in changes:
            self._namespaces.pop(change.object.metadata.name, None)
            if change.kind != "deleted" and change.object.metadata.labels:
                self._namespaces[change.object.metadata.name] = change.object.metadata.labels
        self._hear()

    def see_priorities(self, changes: Sequence[Change[PriorityClass]]) -> None:
        """Handles changes of priority classes."""
        for change in changes:
            self._priorities.pop(change.object.metadata.name, None)
            if change.kind != "deleted":
                self._priorities[change.object.metadata.name] = change.object
        self._hear()

    def see_claims(self, changes: Sequence[Change[PersistentVolumeClaim]]) -> None:
        """Handles changes of claims."""
        for change in changes:
            key = change.object.metadata.namespace, change.object.metadata.name
            self._claims.pop(key, None)
            if change.kind != "deleted":
                self._claims[key] = change.object
        self._hear()

    def see_volumes(self, changes: Sequence[Change[PersistentVolume]]) -> None:
        """Handles changes of volumes."""
        for change in changes:
            self._volumes.pop(change.object.metadata.name, None)
            if change.kind != "deleted":
                self._volumes[change.object.metadata.name] = change.object
        self._hear()

    def see_classes(self, changes: Sequence[Change[dict[str, Any]]]) -> None:
        """Handles changes of storage classes."""
        for change in changes:
            name = change.object["metadata"]["name"]
            self._classes.pop(name, None)
            if change.kind != "deleted":
                self._classes[name] = storage_class(change.object)
        self._hear()
