"""Groups nodes into pools, and reads which GPUs a node should have and has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windlass.core.model.resources import QuantityError, parse_quantity
from windlass.diagnose.cluster.survey import ClusterSurvey, find_condition, items, labels_of, mapping, read, text
from windlass.jobs.kubernetes.manifest_reader import Manifest

_POOL_LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    "node.cluster.x-k8s.io/pool",
    "nvidia.com/gpu.product",
    "node.kubernetes.io/instance-type",
)
_GPU_LABELS = (
    "nvidia.com/gpu.present",
    "nvidia.com/gpu.product",
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/pci-0302_10de.present",
    "feature.node.kubernetes.io/pci-0300_10de.present",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "kubernetes.azure.com/accelerator",
)
"""Labels by which discovery or a cloud says that a node has NVIDIA GPUs, before any driver works."""
_DEVICES = ("nvidia.com/", "amd.com/gpu")
_NO_POOL = "nodes"


@dataclass(frozen=True, slots=True)
class NodePool:
    """Nodes of one kind. `slices`: names of its nodes for which a DRA driver publishes NVIDIA devices."""

    name: str
    nodes: tuple[Manifest, ...]
    slices: frozenset[str] = frozenset()

    @property
    def gpu_nodes(self) -> tuple[Manifest, ...]:
        """Nodes that have, or by their labels should have, GPUs."""
        return tuple(node for node in self.nodes if has_gpu_label(node) or devices(node, "capacity"))


def group_nodes(survey: ClusterSurvey) -> tuple[NodePool, ...]:
    """Returns the pools of a cluster by name: by the cloud's label, the GPU's product or the type of machine."""
    pools: dict[str, list[Manifest]] = {}
    for node in survey.of("nodes"):
        labels = labels_of(node)
        named = (str(labels[label]) for label in _POOL_LABELS if labels.get(label))
        pools.setdefault(next(named, _NO_POOL), []).append(node)
    published = {
        text(each, "spec", "nodeName") for each in survey.of("resourceslices.resource.k8s.io") if _is_gpu(each)
    }
    return tuple(NodePool(name, tuple(nodes), _names(nodes) & published) for name, nodes in sorted(pools.items()))


def _is_gpu(resource_slice: Manifest) -> bool:
    is_ours = text(resource_slice, "spec", "driver") == "gpu.nvidia.com"
    return is_ours and bool(items(resource_slice, "spec", "devices"))


def _names(nodes: list[Manifest]) -> frozenset[str]:
    return frozenset(text(node, "metadata", "name") for node in nodes)


def has_gpu_label(node: Manifest) -> bool:
    """Returns whether a label says that the node has GPUs."""
    labels = labels_of(node)
    return any(labels.get(label) not in (None, "", "false") for label in _GPU_LABELS)


def takes_pods(node: Manifest) -> bool:
    """Returns whether a scheduler may bind pods to a node: it is ready and not cordoned."""
    return find_condition(node, "Ready").get("status") == "True" and not read(node, "spec", "unschedulable")


def devices(node: Manifest, field: str) -> dict[str, int]:
    """Returns the GPU resources of a node in `capacity` or `allocatable`; amounts that cannot be read are left out."""
    return {name: count for name, count in quantities(mapping(node, "status", field)).items() if count}


def quantities(amounts: Mapping[str, object], *, gpus_only: bool = True) -> dict[str, int]:
    """Returns the parsed amounts of a resource list."""
    found = {}
    for name, amount in amounts.items():
        if not gpus_only or name.startswith(_DEVICES):
            try:
                found[name] = parse_quantity(name, str(amount))
            except QuantityError:
                continue
    return found
