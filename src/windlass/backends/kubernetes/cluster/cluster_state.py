"""The state of nodes, their use by pods of others, and cluster-wide settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from windlass.backends.kubernetes.client.object_reference import ObjectReference
from windlass.backends.kubernetes.client.objects import Node, Pod
from windlass.backends.kubernetes.client.resources import named
from windlass.backends.kubernetes.cluster.cluster_settings import ClusterSettings, ObjectKey, read_settings
from windlass.backends.kubernetes.cluster.cluster_view import ClusterView
from windlass.backends.kubernetes.cluster.nodes import is_dead
from windlass.backends.kubernetes.cluster.object_faults import ObjectFaults
from windlass.backends.kubernetes.cluster.pods import Holding
from windlass.backends.port import ClusterChanged
from windlass.core.model.job import Job
from windlass.core.model.queue import Queue
from windlass.core.nodes.node_health import grace_of
from windlass.jobs.kubernetes.kinds.trainingjob import API_VERSION

Manifests = dict[str, dict[str, Any]]
QUEUES = named(API_VERSION, "queues", "Queue", namespaced=False)
POLICIES = named(API_VERSION, "schedulingpolicies", "SchedulingPolicy", namespaced=False)
RESERVATIONS = named(API_VERSION, "reservations", "Reservation", namespaced=False)
DEFAULT = Queue("default")


class ClusterState:
    """Nodes, their use by foreign pods, and settings, as the watches last saw them.

    `changed` returns the event for the controller, if the cluster may have changed.
    """

    def __init__(self, faults: ObjectFaults) -> None:
        self.picture = ClusterView(faults)
        self._faults = faults
        self.queues: Manifests = {}
        self.policies: Manifests = {}
        self.reservations: Manifests = {}
        self.declared = ClusterSettings((DEFAULT,))
        self._queues_by_name: Mapping[str, Queue] = {DEFAULT.name: DEFAULT}
        self._reported_faults: dict[str, str] = {}
        """Faults that were reported, by uid of their object."""
        self._declared_anew = True
        self._dead: set[str] = set()
        self.has_news = True
        """Whether anything has changed since the last event."""

    def see_node(self, node: Node) -> None:
        """Handles a new or changed node."""
        if is_dead(node):
            self._dead.add(node.metadata.name)
        self.has_news |= self.picture.put_node(node)

    def lose_node(self, name: str) -> None:
        """Handles a deleted node."""
        self._dead.add(name)
        self.has_news |= self.picture.drop_node(name)

    def take_dead_nodes(self) -> frozenset[str]:
        """Returns and clears the nodes found dead since the last call: deleted, or out of service."""
        dead, self._dead = frozenset(self._dead), set()
        return dead

    def see_pod(self, pod: Pod, held: Holding | None) -> None:
        """Handles a new or changed pod. `held`: what the controller holds for it as a member of a gang, if anything."""
        self.has_news |= self.picture.put_pod(pod, held)

    def lose_pod(self, pod: Pod) -> None:
        """Handles a deleted pod."""
        self.has_news |= self.picture.drop_pod(pod)

    def declare(self) -> None:
        """Handles changed queues, policies or reservations."""
        self._declared_anew = self.has_news = True

    def faults(self) -> Iterator[tuple[ObjectReference, dict[str, Any], str]]:
        """Yields objects whose fault has changed since the last call; "" for a resolved fault."""
        for resource, held in ((QUEUES, self.queues), (POLICIES, self.policies), (RESERVATIONS, self.reservations)):
            for name, manifest in held.items():
                wrong = self.declared.faults.get(ObjectKey(resource.kind, name), "")
                reference = ObjectReference(resource, "", name, manifest["metadata"]["uid"])
                if self._reported_faults.get(reference.uid, "") != wrong:
                    self._reported_faults[reference.uid] = wrong
                    yield reference, manifest, wrong

    def node_grace(self, job: Job) -> int:
        """Returns the ms for which a node of a job may be unreachable, by the job or by its queue."""
        return grace_of(job, next((queue for queue in self.declared.queues if queue.name == job.queue), None))

    def queues_now(self) -> Mapping[str, Queue]:
        """Returns the queues by name, also those that no event has reported yet."""
        if self._declared_anew:
            self._read_declared()
        return self._queues_by_name

    def changed(self) -> ClusterChanged:
        """Returns the present cluster as an event."""
        if self._declared_anew or self.reservations:  # reservations name nodes
            self._read_declared()
        self.has_news = False
        declared, excess = self.declared, self.picture.excess
        queues = tuple(
            replace(each, excess=excess[each.name]) if each.name in excess else each for each in declared.queues
        )
        return ClusterChanged(
            self.picture.nodes(), queues, self.picture.topology, declared.policy, declared.reservations
        )

    def _read_declared(self) -> None:
        found = read_settings(
            self.queues.values(), self.policies.values(), self.reservations.values(), list(self.picture.objects)
        )
        self.picture.list_levels(found.levels)
        has_default = any(queue.name == DEFAULT.name for queue in found.queues)
        queues = found.queues if has_default else (*found.queues, DEFAULT)
        self.declared = ClusterSettings(queues, found.policy, found.reservations, found.levels, found.faults)
        self._queues_by_name = {queue.name: queue for queue in queues}
        self._declared_anew = False
