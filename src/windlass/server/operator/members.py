"""Which pods are the members of a job: of one of our kinds by their labels, of a gang of others by their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.external.external_gang import ExternalGang
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.pods.pod_binding import generation_of
from windlass.core.model.status import JobState
from windlass.jobs.kubernetes import labels
from windlass.jobs.kubernetes.pods import pod_assembly
from windlass.server.operator.pod_tasks import PodTask, pod_task

_ROLES = (labels.ROLE, pod_assembly.REPLICA_TYPE, pod_assembly.JOB_ROLE)
_INDEXES = (labels.REPLICA_INDEX, pod_assembly.REPLICA_INDEX)


Place: TypeAlias = tuple[Pod, str, int]
"""A pod, its role, and its index within the role."""
_ENDED = ("Succeeded", "Failed")


def list_members(world: KubernetesBackend, state: JobState, *, ended: bool = False) -> list[tuple[PodTask, Pod]]:
    """The pods that are on nodes, or were, of every generation that is still there; in order.

    `ended`: only those that have. Most turns change gangs of which none has, so these are looked for first.
    """
    gang, guest = world.jobs.get(state.id), world.external.get(state.id)
    places: Iterable[Place] = ()
    if gang is not None:
        places = _of_gang(world, gang)
    elif guest is not None:
        places = _of_guest(world, guest)
    found = [
        (pod_task(state, pod, role, index), pod)
        for pod, role, index in places
        if pod.spec.node_name and (not ended or pod.status.phase in _ENDED)
    ]
    return sorted(found, key=lambda each: (each[0].generation, each[0].rank))


def _of_gang(world: KubernetesBackend, gang: Gang) -> Iterator[Place]:
    uid = gang.home.uid
    for pod in (*world.pods.owned(uid), *world.launchers.pods(uid)):
        if generation_of(pod):
            labels = pod.metadata.labels
            yield pod, next((labels[name] for name in _ROLES if name in labels), ""), _index(labels)


def _of_guest(world: KubernetesBackend, guest: ExternalGang) -> Iterator[Place]:
    places = [(role.name, index) for role in guest.job.roles for index in range(role.replicas)]
    for (role, index), gathered in zip(places, guest.pods, strict=False):
        pod = world.pods.get(gathered.metadata.namespace, gathered.metadata.name)
        if pod is not None and pod.metadata.uid == gathered.metadata.uid:
            yield pod, role, index


def _index(labels: Mapping[str, str]) -> int:
    return next((int(text) for name in _INDEXES if (text := labels.get(name, "")).isdecimal()), 0)
