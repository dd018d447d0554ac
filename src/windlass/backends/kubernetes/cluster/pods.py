"""What one pod takes of its node, in Kubernetes' own names for resources and the core's units."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from windlass.backends.kubernetes.client.objects import Container, Pod, Words
from windlass.backends.kubernetes.client.objects import Resources as Asked
from windlass.core.model.resources import PODS, Resources
from windlass.jobs.kubernetes.manifest_reader import Refused, Spot
from windlass.jobs.kubernetes.pods.anti_affinity import avoided, of_labels
from windlass.jobs.kubernetes.pods.pod_requests import effective, host_port
from windlass.jobs.kubernetes.pods.quantities import amount

_ENDED = ("Succeeded", "Failed")


def takes(pod: Pod) -> dict[str, int]:
    """Its requests, its place among the node's pods, ports, and what keeps its like away; nothing once it has ended.

    One that is being deleted takes all until it is gone.
    """
    if pod.status.phase in _ENDED:
        return {}
    spec = pod.spec
    together = effective(
        [_asked(container.resources) for container in spec.containers],
        [(_asked(each.resources), each.restart_policy == "Always") for each in spec.init_containers],
        _asked(spec.resources),
        amounts(spec.overhead),
    )
    return {**together, **dict.fromkeys((*ports_of(pod), *_apart(pod)), 1), PODS: 1}


def ports_of(pod: Pod) -> Iterator[str]:
    """The ports of its node that it needs, as resources. With the host's network every port of a container is one."""
    for container in (*pod.spec.containers, *filter(_stays, pod.spec.init_containers)):
        for port in container.ports:
            if number := port.host_port or (pod.spec.host_network and port.container_port):
                yield host_port(number, port.protocol)


def amounts(written: Words) -> dict[str, int]:
    """Quantities of resources. One that cannot be read counts for nothing: an API server lets none of these through."""
    return {name: count for name, text in written.items() if (count := _amount(name, text))}


def _apart(pod: Pod) -> tuple[str, ...]:
    """What keeps its like off its node."""
    if not pod.spec.affinity:
        return ()
    try:
        avoids = avoided(Spot({"affinity": pod.spec.affinity}))
    except Refused:  # whatever it says, an API server would not have taken it
        return ()
    return of_labels(pod.metadata.namespace, pod.metadata.labels, avoids)


def _stays(container: Container) -> bool:
    return container.restart_policy == "Always"


def _asked(resources: Asked) -> Resources:
    """A limit alone is a request."""
    return amounts(resources.requests) if not resources.limits else amounts({**resources.limits, **resources.requests})


@lru_cache(maxsize=8_192)
def _amount(name: str, text: str) -> int:
    try:
        return amount(name, text)
    except ValueError:
        return 0
