"""Network adapters for traffic between nodes: line rate, link layer, and the fabrics that they can carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

FABRICS = ("efa", "infiniband", "roce", "tcp")
"""Transports between nodes: AWS Elastic Fabric Adapter, InfiniBand, RDMA over converged Ethernet, plain sockets."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """One model of network adapter: `gbits` of line rate of all its ports together, and the `fabrics` it can carry."""

    name: str
    gbits: int
    fabrics: tuple[str, ...]
    source: str


_NVIDIA = "https://docs.nvidia.com/networking/display/{}"
_ROWS = (
    Adapter("ConnectX-6", 200, ("infiniband", "roce", "tcp"), _NVIDIA.format("connectx6vpi")),
    Adapter("ConnectX-6 Dx", 200, ("roce", "tcp"), _NVIDIA.format("connectx6dxen")),
    Adapter("ConnectX-7", 400, ("infiniband", "roce", "tcp"), _NVIDIA.format("connectx7vpi")),
    Adapter("ConnectX-8", 800, ("infiniband", "roce", "tcp"), _NVIDIA.format("connectx8supernic")),
    Adapter("BlueField-3", 400, ("infiniband", "roce", "tcp"), _NVIDIA.format("bluefield3dpu")),
    Adapter("EFA", 100, ("efa", "tcp"), "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html"),
    Adapter("EFA-200", 200, ("efa", "tcp"), "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html"),
    Adapter("EFA-400", 400, ("efa", "tcp"), "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html"),
    Adapter("gVNIC-100", 100, ("tcp",), "https://cloud.google.com/compute/docs/gpus/gpu-network-bandwidth"),
    Adapter("gVNIC-200", 200, ("tcp",), "https://cloud.google.com/compute/docs/gpus/gpu-network-bandwidth"),
    Adapter("ConnectX-5", 100, ("infiniband", "roce", "tcp"), _NVIDIA.format("connectx5vpi")),
)

ADAPTERS: Mapping[str, Adapter] = MappingProxyType({adapter.name: adapter for adapter in _ROWS})
"""Network adapters by name. The EFA rows differ in the rate of one network card of an instance type."""
