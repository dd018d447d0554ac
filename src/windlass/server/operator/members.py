"""Which pods are the members of a job: of one of our kinds by their labels, of a gang of others by their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from windlass.core.status import JobState
from windlass.jobs.kubernetes import own_labels, pods
from windlass.server.operator.pod_tasks import PodTask, task
from windlass.worlds.kubernetes.client.objects import Pod
from windlass.worlds.kubernetes.gangs import Gang
from windlass.worlds.kubernetes.guests.guest import Guest
from windlass.worlds.kubernetes.seating import generation_of
from windlass.worlds.kubernetes.world import KubernetesWorld

_ROLES = (own_labels.ROLE, pods.REPLICA_TYPE, pods.JOB_ROLE)
_INDEXES = (own_labels.REPLICA_INDEX, pods.REPLICA_INDEX)


def members(world: KubernetesWorld, state: JobState) -> list[tuple[PodTask, Pod]]:
    """The pods that are on nodes, or were, of every generation that is still there; in order."""
    gang, guest = world.roster.get(state.id), world.guests.get(state.id)
    if gang is not None:
        found = list(_of_gang(world, gang, state))
    elif guest is not None:
        found = list(_of_guest(world, guest, state))
    else:
        found = []
    return sorted(found, key=lambda each: (each[0].generation, each[0].rank))


def _of_gang(world: KubernetesWorld, gang: Gang, state: JobState) -> Iterator[tuple[PodTask, Pod]]:
    uid = gang.home.uid
    for pod in (*world.pods.owned(uid), *world.launchers.pods(uid)):
        if generation_of(pod) and pod.spec.node_name:
            labels = pod.metadata.labels
            yield task(state, pod, next((labels[name] for name in _ROLES if name in labels), ""), _index(labels)), pod


def _of_guest(world: KubernetesWorld, guest: Guest, state: JobState) -> Iterator[tuple[PodTask, Pod]]:
    places = [(role.name, index) for role in guest.job.roles for index in range(role.replicas)]
    for (role, index), gathered in zip(places, guest.pods, strict=False):
        pod = world.pods.get(gathered.metadata.namespace, gathered.metadata.name)
        if pod is not None and pod.metadata.uid == gathered.metadata.uid and pod.spec.node_name:
            yield task(state, pod, role, index), pod


def _index(labels: Mapping[str, str]) -> int:
    return next((int(text) for name in _INDEXES if (text := labels.get(name, "")).isdecimal()), 0)
