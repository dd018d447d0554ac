"""What one pod of a template asks of its node, in the core's names and units.

Sources: k8s.io/component-helpers, resource/helpers.go (PodRequests: containers add up, init containers run one after
another, those that stay are sidecars; overhead and pod-level requests); API defaulting: a limit alone is a request.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.core.resources import CPU, GPU, MEMORY, Resources, add
from windlass.jobs.kubernetes.quantities import amount
from windlass.jobs.kubernetes.reading import Spot

_INTEL_GPUS = ("gpu.intel.com/i915", "gpu.intel.com/xe")
_NVIDIA_MIG = "nvidia.com/mig-"
HOST_PORT = "hostport/"
"""Begins the resource of which a node has one: a port of its own address. TCP's is `hostport/8080`."""


def pod_requests(spec: Spot) -> dict[str, int]:
    """The whole pod, from the `spec` of its template. Raises Refused."""
    running = _sum(_container(container) for container in spec["containers"].items())
    peak, sidecars = _init_containers(spec["initContainers"].items())
    together = _most(add(running, sidecars), peak)
    together |= _declared(spec["resources"], only=(CPU, MEMORY))
    return {
        name: count
        for name, count in {**add(together, _amounts(spec["overhead"])), **_host_ports(spec)}.items()
        if count
    }


def core_name(resource: str) -> str:
    """A resource as the core calls it: any vendor's whole GPU is `gpu`, a slice is `mig-…`, all else keeps its name."""
    if resource.endswith("/gpu") or resource in _INTEL_GPUS:
        return GPU
    return resource.removeprefix("nvidia.com/") if resource.startswith(_NVIDIA_MIG) else resource


def _init_containers(containers: list[Spot]) -> tuple[dict[str, int], dict[str, int]]:
    """The most that is asked before the containers start, and what goes on beside them."""
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in containers:
        wanted = _container(container)
        if container["restartPolicy"].text() == "Always":
            sidecars = add(sidecars, wanted)
            peak = _most(peak, sidecars)
        else:
            peak = _most(peak, add(sidecars, wanted))
    return peak, sidecars


def _container(container: Spot) -> dict[str, int]:
    return _declared(container["resources"])


def _declared(resources: Spot, only: tuple[str, ...] = ()) -> dict[str, int]:
    declared = {**_amounts(resources["limits"]), **_amounts(resources["requests"])}
    return {name: count for name, count in declared.items() if not only or name in only}


def _amounts(written: Spot) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for name, spot in written.fields():
        try:
            one = {core_name(name): amount(core_name(name), spot.value)}
        except ValueError as error:
            spot.refuse(str(error))
        amounts = add(amounts, one)
    return amounts


def _host_ports(spec: Spot) -> dict[str, int]:
    """Ports on the node itself. With the host's network every port of a container is one."""
    on_host = spec["hostNetwork"].flag()
    ports: dict[str, int] = {}
    sidecars = [each for each in spec["initContainers"].items() if each["restartPolicy"].text() == "Always"]
    for container in (*spec["containers"].items(), *sidecars):
        for port in container["ports"].items():
            number = port["hostPort"].whole(0, 65535) or (port["containerPort"].whole(0, 65535) if on_host else 0)
            protocol = port["protocol"].text("TCP")
            if number:
                ports[f"{HOST_PORT}{number}" + ("" if protocol == "TCP" else f"/{protocol.lower()}")] = 1
    return ports


def _sum(parts: Iterable[Resources]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        total = add(total, part)
    return total


def _most(left: Resources, right: Resources) -> dict[str, int]:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in left.keys() | right.keys()}
