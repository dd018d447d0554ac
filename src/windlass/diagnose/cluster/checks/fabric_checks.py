"""Checks of the network of each node pool: devices that machine types have and no plugin offers, and huge pages."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.diagnose.cluster.node_pools import NodePool, group_nodes, quantities
from windlass.diagnose.cluster.survey import ClusterSurvey, labels_of, mapping, text
from windlass.diagnose.steps import CheckStep, State, absent, ok
from windlass.hardware.facts.instances import Instance
from windlass.hardware.network.automatic import selected_instance
from windlass.hardware.network.profiles import EFA_RESOURCE, HUGE_PAGES, PROFILES, is_rdma_resource
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.pods.quantities import amount

_SHOWN = 10
_PLUGINS = {
    "efa": "install aws-efa-k8s-device-plugin (helm chart eks/aws-efa-k8s-device-plugin)",
    "infiniband": "install NVIDIA's Network Operator with the RDMA shared device plugin",
    "roce": "install NVIDIA's Network Operator with the RDMA shared or the SR-IOV device plugin",
}
"""Fabric → what offers its devices to pods."""


def check_fabrics(survey: ClusterSurvey) -> Iterator[CheckStep]:
    """Yields the steps of every pool with GPUs: devices of the fabric, and for EFA huge pages."""
    for pool in group_nodes(survey) if "nodes" not in survey.refused else ():
        if pool.gpu_nodes:
            yield _check_devices(pool)
            yield from _check_huge_pages(pool)


def _offered(node: Manifest) -> dict[str, int]:
    found = quantities(mapping(node, "status", "allocatable"), gpus_only=False)
    return {name: count for name, count in found.items() if count and (name == EFA_RESOURCE or is_rdma_resource(name))}


def _instance(node: Manifest) -> Instance | None:
    return selected_instance({name: str(value) for name, value in labels_of(node).items()})


def _check_devices(pool: NodePool) -> CheckStep:
    name = f"pool.fabric:{pool.name}"
    lines, fabric = [], ""
    for node in pool.gpu_nodes:
        instance, offered = _instance(node), _offered(node)
        if instance is not None and (fault := _fault(instance, offered)):
            lines.append(f"{text(node, 'metadata', 'name')}: {fault}")
            fabric = instance.fabric
    if lines:
        found = f"pods get TCP, or a part of the network, on {len(lines)} of {len(pool.gpu_nodes)} GPU nodes"
        return CheckStep(name, State.WARNING, found, _PLUGINS[fabric], tuple(lines[:_SHOWN]))
    kinds = sorted({each for node in pool.gpu_nodes for each in _offered(node)})
    return ok(name, ", ".join(kinds)) if kinds else absent(name, "no RDMA or EFA device is offered")


def _fault(instance: Instance, offered: dict[str, int]) -> str:
    """Returns what the nodes of a machine type lack, "" if nothing; SR-IOV may offer any number of functions."""
    if instance.fabric == "tcp":
        return ""
    if not offered:
        return f"{instance.name} has {instance.fabric}, and no plugin offers it"
    count = offered.get(EFA_RESOURCE, instance.adapters)
    is_short = instance.fabric == "efa" and count < instance.adapters
    return f"{instance.name} has {instance.adapters} adapters, {count} are offered" if is_short else ""


def _check_huge_pages(pool: NodePool) -> Iterator[CheckStep]:
    """A pod with --network efa waits for ever where its nodes have fewer huge pages than the profile requests."""
    name, wanted = f"pool.huge_pages:{pool.name}", PROFILES["efa"].hugepages
    nodes = [node for node in pool.gpu_nodes if EFA_RESOURCE in _offered(node)]
    if not nodes:
        return
    short = [node for node in nodes if _huge_pages(node) < amount(HUGE_PAGES, wanted)]
    if short:
        fix = "reserve them at boot (vm.nr_hugepages=5128), or write network: efa,hugepages=0"
        names = tuple(text(node, "metadata", "name") for node in short[:_SHOWN])
        found = f"{len(short)} of {len(nodes)} nodes with EFA have less than {wanted} of {HUGE_PAGES}"
        yield CheckStep(name, State.WARNING, found, fix, names)
    else:
        yield ok(name, f"{wanted} of {HUGE_PAGES} on {len(nodes)} nodes")


def _huge_pages(node: Manifest) -> int:
    found = quantities(mapping(node, "status", "allocatable"), gpus_only=False)
    return found.get(HUGE_PAGES, 0)
