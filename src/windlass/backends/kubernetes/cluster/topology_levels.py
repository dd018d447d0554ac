"""Levels of the network topology, and the domain of a node in each level, from its labels.

Sources of the labels, widest level first: kubernetes.io's well-known labels; Kueue's documentation of topology aware
scheduling; the documentation of GKE (gce-topology), EKS (network-node-layer), OKE (rdma), and of NVIDIA's Topograph
and GPU operator. AKS documents no label below the zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from windlass.core.model.node import Topology
from windlass.jobs.kubernetes.pods.pod_placement import HOSTNAME

HOST = "host"
_KNOWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "region": ("topology.kubernetes.io/region",),
        "zone": ("topology.kubernetes.io/zone",),
        "fabric": (
            "topology.windlass.dev/fabric",
            "topology.k8s.aws/network-node-layer-1",
            "oci.oraclecloud.com/rdma.hpc_island_id",
            "network.topology.nvidia.com/core",
        ),
        "block": (
            "topology.windlass.dev/block",
            "cloud.provider.com/topology-block",
            "cloud.google.com/gce-topology-block",
            "topology.k8s.aws/network-node-layer-2",
            "oci.oraclecloud.com/rdma.network_block_id",
            "network.topology.nvidia.com/spine",
        ),
        "rack": (
            "topology.windlass.dev/rack",
            "cloud.provider.com/topology-rack",
            "cloud.google.com/gce-topology-subblock",
            "topology.k8s.aws/network-node-layer-3",
            "oci.oraclecloud.com/rdma.local_block_id",
            "network.topology.nvidia.com/leaf",
        ),
        "nvlink": (
            "topology.windlass.dev/nvlink",
            "nvidia.com/gpu.clique",
            "topology.k8s.aws/ultraserver-id",
            "network.topology.nvidia.com/accelerator",
        ),
        HOST: (HOSTNAME,),
    }
)


@dataclass(frozen=True, slots=True)
class Level:
    """A topology level: its name in requests, and the labels of which the first present one names a node's domain."""

    name: str
    labels: tuple[str, ...]


def level_labels() -> frozenset[str]:
    """Returns the labels that define levels."""
    return frozenset(label for labels in _KNOWN.values() for label in labels)


def levels_of(nodes: Iterable[Iterable[str]]) -> tuple[Level, ...]:
    """Returns the known levels for which any of these nodes has a label, and the host, widest first."""
    found = {HOSTNAME}.union(*nodes)
    return tuple(Level(name, known) for name, known in _KNOWN.items() if found.intersection(known))


def topology(levels: Sequence[Level]) -> Topology:
    """Returns the levels for the core."""
    return Topology(tuple(level.name for level in levels))


def place(levels: Sequence[Level], name: str, labels: Mapping[str, str]) -> tuple[str, ...]:
    """Returns a node's domain at each level; "" without a label. A host without its label is its own domain."""
    return tuple(_domain(level, labels) or (name if level.name == HOST else "") for level in levels)


def level_named(levels: Sequence[Level], asked: str) -> str:
    """Returns the level requested by its name or, as in Kueue, by a label; `asked` itself if there is none."""
    return next((level.name for level in levels if asked in (level.name, *level.labels)), asked)


def _domain(level: Level, labels: Mapping[str, str]) -> str:
    for label in level.labels:
        if domain := labels.get(label):
            return domain
    return ""
