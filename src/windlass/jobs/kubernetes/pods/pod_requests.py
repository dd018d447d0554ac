"""Requests of one pod of a template, in the core's names and units.

Sources: k8s.io/component-helpers, resource/helpers.go (PodRequests: containers add up, init containers run one after
another, those that stay are sidecars; overhead and pod-level requests); API defaulting: a limit alone is a request.
"""

from __future__ import annotations

from collections.abc import Iterable

from windlass.core.model.mig import GEOMETRIES, PREFIX
from windlass.core.model.resources import CPU, GPU, MEMORY, Resources, add
from windlass.jobs.kubernetes.manifest_reader import ManifestField
from windlass.jobs.kubernetes.pods.quantities import amount

NVIDIA_GPU = "nvidia.com/gpu"
_GPUS = ("gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi", "google.com/tpu", "aws.amazon.com/neuron")
"""Names of whole devices at some vendors; all others end in /gpu."""
_NVIDIA_MIG = f"nvidia.com/{PREFIX}"
_PROFILES = {PREFIX + profile.name for geometry in GEOMETRIES.values() for profile in geometry.profiles}
_HUGE = "hugepages-"
HOST_PORT = "hostport/"
"""Prefix of the resource for a host port, of which each node has one. TCP's is `hostport/8080`."""


def pod_requests(spec: ManifestField) -> dict[str, int]:
    """Returns the requests of a whole pod, from the `spec` of its template. Raises ManifestError."""
    asked = effective_requests(
        [_container(container) for container in spec["containers"].items()],
        [(_container(each), each["restartPolicy"].text() == "Always") for each in spec["initContainers"].items()],
        _container(spec),
        _amounts(spec["overhead"]),
    )
    return {name: count for name, count in {**asked, **_host_ports(spec)}.items() if count}


def effective_requests(
    containers: Iterable[Resources],
    init_containers: Iterable[tuple[Resources, bool]],
    of_pod: Resources,
    overhead: Resources,
) -> dict[str, int]:
    """Requests of a pod. Each init container comes with whether it stays as a sidecar.

    `of_pod`: requests of the pod itself, in place of the sum of its containers.
    """
    peak, sidecars = _init_containers(init_containers)
    together = _most(add(_sum(containers), sidecars), peak)
    together |= {name: count for name, count in of_pod.items() if name in (CPU, MEMORY) or name.startswith(_HUGE)}
    return add(together, overhead)


def is_gpu(resource: str) -> bool:
    """Tells whether a resource is a whole GPU of any vendor."""
    return resource.endswith("/gpu") or resource in _GPUS


def gpu_resources(spec: ManifestField) -> tuple[str, ...]:
    """Returns the resources of whole GPUs that the nodes of a pod offer; for a MIG slice that of NVIDIA's GPUs."""
    containers = (*spec["containers"].items(), *spec["initContainers"].items())
    parts = [each["resources"][part] for each in containers for part in ("limits", "requests")]
    names = [name for part in parts for name, written in part.fields() if written.value not in (0, "0")]
    return tuple(
        dict.fromkeys(
            NVIDIA_GPU if name.startswith(_NVIDIA_MIG) else name
            for name in names
            if is_gpu(name) or name.startswith(_NVIDIA_MIG)
        )
    )


def core_name(resource: str) -> str:
    """Returns the core's name of a resource: `gpu` for any vendor's whole GPU, `mig-…` for a slice, else its own name.

    Slices of a profile that the core does not know keep their names too.
    """
    if is_gpu(resource):
        return GPU
    mig = resource.removeprefix("nvidia.com/") if resource.startswith(_NVIDIA_MIG) else ""
    return mig if mig in _PROFILES else resource


def device_name(resource: str) -> str:
    """A device of the core as Kubernetes calls it. Its whole GPU is NVIDIA's; no resource's name may hold a plus."""
    if resource == GPU:
        return NVIDIA_GPU
    return f"nvidia.com/{resource.replace('+', '.')}" if resource.startswith(PREFIX) else resource


def host_port(number: int, protocol: str) -> str:
    """Returns the name of the resource for a port of the node."""
    return f"{HOST_PORT}{number}" + ("" if protocol == "TCP" else f"/{protocol.lower()}")


def _init_containers(containers: Iterable[tuple[Resources, bool]]) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the peak requests before the containers start, and the requests of the sidecars that continue."""
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for wanted, stays in containers:
        if stays:
            sidecars = add(sidecars, wanted)
            peak = _most(peak, sidecars)
        else:
            peak = _most(peak, add(sidecars, wanted))
    return peak, sidecars


def _container(container: ManifestField) -> dict[str, int]:
    return {**_amounts(container["resources"]["limits"]), **_amounts(container["resources"]["requests"])}


def _amounts(written: ManifestField) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for name, field in written.fields():
        try:
            one = {core_name(name): amount(core_name(name), field.value)}
        except ValueError as error:
            field.refuse(str(error))
        amounts = add(amounts, one)
    return amounts


def _host_ports(spec: ManifestField) -> dict[str, int]:
    """Ports on the node itself. With the host's network every port of a container is one."""
    on_host = spec["hostNetwork"].flag()
    ports: dict[str, int] = {}
    sidecars = [each for each in spec["initContainers"].items() if each["restartPolicy"].text() == "Always"]
    for container in (*spec["containers"].items(), *sidecars):
        for port in container["ports"].items():
            number = port["hostPort"].integer(0, 65535) or (port["containerPort"].integer(0, 65535) if on_host else 0)
            protocol = port["protocol"].text("TCP")
            if number:
                ports[host_port(number, protocol)] = 1
    return ports


def _sum(parts: Iterable[Resources]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        total = add(total, part)
    return total


def _most(left: Resources, right: Resources) -> dict[str, int]:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in left.keys() | right.keys()}
