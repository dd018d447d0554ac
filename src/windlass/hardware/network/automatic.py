"""Chooses the profile `auto`: from the resources, labels and machine types of nodes, or from devices of a machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from windlass.hardware.facts.instances import Instance, instance_named
from windlass.hardware.network.profiles import AUTO, EFA_RESOURCE, is_rdma_resource
from windlass.hardware.network.request import NetworkRequest

INSTANCE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
"""Labels of nodes, and in selectors of pods, that name the machine type."""
_INFINIBAND_NAMES = ("infiniband", "ipoib", "rdma/ib", "shared_ib", "_ib")
"""Parts of names of resources that administrators give to InfiniBand devices."""

AUTO_PAGE = f"""network {AUTO}

The profile that the nodes of a job offer, chosen when the job is read.

ON KUBERNETES
  Of the nodes that a replica may use, by its node selector and GPUs:
  efa           all offer {EFA_RESOURCE}
  infiniband    all offer an RDMA device, and the machine type or the name of
                the resource says InfiniBand
  roce          all offer an RDMA device rdma/NAME, and networks are named for
                it: networks=NAME+NAME
  roce-sriov    the same with a device of another name
  tcp           otherwise, and where the nodes differ
  A device that the operator's option --network names for a profile chooses
  that profile.
  The annotation windlass.dev/network of each pod and the Event NetworkChosen
  have the profile and the reason.

ON THIS MACHINE
  By the active ports in /sys/class/infiniband: efa, else infiniband, else
  roce; tcp without one. windlass run prints the choice.
"""
"""Output of `windlass explain network.auto`."""


@dataclass(frozen=True, slots=True)
class NodeFabric:
    """Facts that one node shows: its labels, its allocatable devices by resource, and its number of GPUs."""

    labels: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, int] = field(default_factory=dict)
    gpus: int = 0

    @property
    def instance(self) -> Instance | None:
        """The machine type, None if it is not known."""
        return selected_instance(self.labels)


@dataclass(frozen=True, slots=True)
class Choice:
    """A chosen profile, the reason, and the resource that the nodes offer for it ("": the profile's own)."""

    profile: str
    reason: str
    resource: str = ""


def selected_instance(labels: Mapping[str, str]) -> Instance | None:
    """Returns the machine type of a node's labels or a pod's node selector, None if the table lacks it."""
    return next((found for label in INSTANCE_LABELS if (found := instance_named(labels.get(label, "")))), None)


def fabric_of_device(driver: str, link_layer: str) -> str:
    """Returns the fabric of a device below /sys/class/infiniband: efa, roce or infiniband."""
    if driver == "efa":
        return "efa"
    return "roce" if link_layer == "Ethernet" else "infiniband"


def choose_for_devices(fabrics: Iterable[str]) -> Choice:
    """Chooses by the fabrics of the active RDMA ports of one machine."""
    counts = Counter(fabrics)
    for fabric in ("efa", "infiniband", "roce"):
        if counts[fabric]:
            return Choice(fabric, f"{counts[fabric]} active {fabric} ports in /sys/class/infiniband")
    return Choice("tcp", "no active RDMA port in /sys/class/infiniband")


def choose_for_nodes(
    nodes: Sequence[NodeFabric], defaults: Mapping[str, NetworkRequest], request: NetworkRequest
) -> Choice:
    """Chooses the profile that all of these nodes offer; TCP if they differ. `nodes`: those that a replica may use."""
    if not nodes:
        return Choice("tcp", "no node that the job may use is known")
    choices = [_choose_for_node(node, defaults, request) for node in nodes]
    profiles = {each.profile for each in choices}
    if len(profiles) > 1:
        counts = Counter(each.profile for each in choices)
        shown = ", ".join(f"{count} × {profile}" for profile, count in counts.most_common())
        return Choice("tcp", f"the nodes that the job may use differ: {shown}; select one kind of nodes")
    return Choice(
        choices[0].profile, f"{choices[0].reason}, on {len(nodes)} of {len(nodes)} nodes", choices[0].resource
    )


def _choose_for_node(node: NodeFabric, defaults: Mapping[str, NetworkRequest], request: NetworkRequest) -> Choice:
    if node.devices.get(EFA_RESOURCE):
        return Choice("efa", f"nodes offer {EFA_RESOURCE}", EFA_RESOURCE)
    if offered := sorted(name for name, count in node.devices.items() if count and is_rdma_resource(name)):
        return _choose_rdma(node, offered, defaults, request)
    instance = node.instance
    if instance and instance.fabric != "tcp":
        return Choice("tcp", f"{instance.name} has {instance.fabric}, but no device plugin offers it")
    return Choice("tcp", "nodes offer no RDMA device")


def _choose_rdma(
    node: NodeFabric, offered: Sequence[str], defaults: Mapping[str, NetworkRequest], request: NetworkRequest
) -> Choice:
    """Chooses among the profiles of RDMA devices: by configured resources, machine type and names of resources."""
    configured = {name: each for name, each in defaults.items() if set(each.resource) & set(offered)}
    if configured:
        profile = next(iter(configured))
        return Choice(profile, f"nodes offer {', '.join(configured[profile].resource)}, configured for {profile}")
    name = offered[0]
    if _is_infiniband(node.instance, name):
        return Choice("infiniband", f"nodes offer {name}", name)
    profile = "roce-sriov" if not name.startswith("rdma/") else "roce"
    own = defaults.get(profile)
    if request.networks or (own and own.networks):
        return Choice(profile, f"nodes offer {name}", name)
    return Choice("tcp", f"nodes offer {name}, but no networks are named for it: networks=NAME")


def _is_infiniband(instance: Instance | None, resource: str) -> bool:
    if instance and instance.fabric in ("infiniband", "roce"):
        return instance.fabric == "infiniband"
    return any(part in resource for part in _INFINIBAND_NAMES)


def usable_nodes(
    nodes: Iterable[NodeFabric], selector: Mapping[str, str], gpus: int, avoided: Collection[str] = ()
) -> list[NodeFabric]:
    """Returns the nodes with the labels of a selector, and with GPUs if a replica has some."""
    return [
        node
        for node in nodes
        if (node.gpus or not gpus)
        and selector.items() <= node.labels.items()
        and node.labels.get("kubernetes.io/hostname") not in avoided
    ]
