"""Pods of a job: those of our kinds are matched by labels, those of external gangs by their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.external.external_gang import ExternalGang
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run_pods import generation_of
from windlass.core.model.status import JobState
from windlass.jobs.kubernetes import labels
from windlass.jobs.kubernetes.bounded_integers import parse_integer
from windlass.jobs.kubernetes.pods import pod_assembly
from windlass.server.operator.pod_tasks import PodTask, pod_task

_ROLES = (labels.ROLE, pod_assembly.REPLICA_TYPE, pod_assembly.JOB_ROLE)
_INDEXES = (labels.REPLICA_INDEX, pod_assembly.REPLICA_INDEX)


Place: TypeAlias = tuple[Pod, str, int]
"""A pod, its role, and its index within the role."""


def list_members(backend: KubernetesBackend, state: JobState, *, ended: bool = False) -> list[tuple[PodTask, Pod]]:
    """Bound pods of every generation that still exists, by generation and rank.

    `ended`: only pods that have ended. Most turns change gangs without such pods, so that filter is applied first.
    """
    gang, external = backend.jobs.get(state.id), backend.external.get(state.id)
    places: Iterable[Place] = ()
    if gang is not None:
        places = _of_gang(backend, gang)
    elif external is not None:
        places = _of_external_gang(backend, external)
    found = [
        (pod_task(state, pod, role, index), pod)
        for pod, role, index in places
        if pod.spec.node_name and (not ended or pod.status.has_ended)
    ]
    return sorted(found, key=lambda each: (each[0].generation, each[0].rank))


def _of_gang(backend: KubernetesBackend, gang: Gang) -> Iterator[Place]:
    key = gang.reference.owner_key
    for pod in (*backend.pods.owned(key), *backend.launchers.pods(key)):
        if generation_of(pod) or not gang.status.generation:
            labels = pod.metadata.labels
            yield pod, next((labels[name] for name in _ROLES if name in labels), ""), _index(labels)


def _of_external_gang(backend: KubernetesBackend, gang: ExternalGang) -> Iterator[Place]:
    places = [(role.name, index) for role in gang.job.roles for index in range(role.replicas)]
    for (role, index), gathered in zip(places, gang.pods, strict=False):
        pod = backend.pods.get(gathered.metadata.namespace, gathered.metadata.name)
        if pod is not None and pod.metadata.uid == gathered.metadata.uid:
            yield pod, role, index


def _index(labels: Mapping[str, str]) -> int:
    indexes = (parse_integer(labels.get(name)) for name in _INDEXES)
    return next((index for index in indexes if index is not None), 0)
