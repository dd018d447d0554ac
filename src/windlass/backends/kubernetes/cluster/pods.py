"""The resources that one pod uses on its node, with Kubernetes' names and the core's units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from windlass.backends.kubernetes.client.objects import Container, Pod, PodSpec, PodStatus, StringMap
from windlass.backends.kubernetes.client.objects import Resources as Asked
from windlass.core.model.resources import CPU, MEMORY, PODS, Resources
from windlass.jobs.kubernetes.manifest_reader import ManifestError, ManifestField
from windlass.jobs.kubernetes.pods.anti_affinity import anti_affinity_selectors, exclusions_of_pod
from windlass.jobs.kubernetes.pods.pod_requests import effective_requests, host_port
from windlass.jobs.kubernetes.pods.quantities import amount

_INFEASIBLE = "PodResizePending", "Infeasible"
"""Type and reason of the condition of a pod that keeps its resources, because its node cannot have more."""


@dataclass(frozen=True, slots=True)
class Holding:
    """Resources held for one pod of a gang on its node, and the queue and user that are charged for it."""

    resources: Resources
    queue: str
    user: str


def pod_usage(pod: Pod) -> dict[str, int]:
    """Returns requests, one pod slot, host ports and anti-affinity of a pod; nothing once it has ended.

    A pod that is being deleted uses everything until it is gone.
    """
    if pod.status.has_ended:
        return {}
    return {**_requests(pod.spec, pod.status), **dict.fromkeys((*ports_of(pod), *_apart(pod)), 1), PODS: 1}


def excess_usage(spec: PodSpec, status: PodStatus, held: Resources) -> dict[str, int]:
    """Returns the CPU and memory that a living pod requests beyond what the controller holds for it.

    Its owner may resize it in place, and admission may add containers to it.
    """
    if status.has_ended:
        return {}
    asked = _requests(spec, status)
    return {name: more for name in (CPU, MEMORY) if (more := asked.get(name, 0) - held.get(name, 0)) > 0}


def _requests(spec: PodSpec, status: PodStatus) -> dict[str, int]:
    is_kept = any((each.type, each.reason) == _INFEASIBLE for each in status.conditions)
    states = (*status.container_statuses, *status.init_container_statuses) if is_kept else ()
    kept = {each.name: each.resources for each in states if each.resources.requests or each.resources.limits}
    return effective_requests(
        [_asked(kept.get(container.name, container.resources)) for container in spec.containers],
        [
            (_asked(kept.get(each.name, each.resources)), each.restart_policy == "Always")
            for each in spec.init_containers
        ],
        _asked(spec.resources),
        amounts(spec.overhead),
    )


def ports_of(pod: Pod) -> Iterator[str]:
    """Yields the host ports that it needs, as resources. With the host's network every port of a container is one."""
    for container in (*pod.spec.containers, *filter(_stays, pod.spec.init_containers)):
        for port in container.ports:
            if number := port.host_port or (pod.spec.host_network and port.container_port):
                yield host_port(number, port.protocol)


def amounts(written: StringMap) -> dict[str, int]:
    """Parses quantities of resources. An unreadable one counts as zero: API servers reject those."""
    return {name: count for name, text in written.items() if (count := _amount(name, text))}


def _apart(pod: Pod) -> tuple[str, ...]:
    """Returns the resources that represent its anti-affinity."""
    if not pod.spec.affinity:
        return ()
    try:
        avoids = anti_affinity_selectors(ManifestField({"affinity": pod.spec.affinity}))
    except ManifestError:  # an API server would have rejected it
        return ()
    return exclusions_of_pod(pod.metadata.namespace, pod.metadata.labels, avoids)


def _stays(container: Container) -> bool:
    return container.restart_policy == "Always"


def _asked(resources: Asked) -> Resources:
    """Returns the requests of a container; a limit without a request is one."""
    return amounts(resources.requests) if not resources.limits else amounts({**resources.limits, **resources.requests})


@lru_cache(maxsize=8_192)
def _amount(name: str, text: str) -> int:
    try:
        return amount(name, text)
    except ValueError:
        return 0
