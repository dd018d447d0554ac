"""Machines: cloud instance types and reference servers, with their GPUs and the adapters between nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING

from windlass.hardware.errors import PlanError
from windlass.hardware.facts.networks import ADAPTERS

if TYPE_CHECKING:
    from windlass.hardware.facts.gpus import GpuModel


@dataclass(frozen=True, slots=True)
class Instance:
    """One machine type: `gpus` GPUs of model `gpu`, and `adapters` network adapters for traffic between nodes.

    `fabric`: the fastest transport that the provider supports between such machines. The adapter of the control
    network is not counted.
    """

    name: str
    provider: str
    gpu: str
    gpus: int
    adapter: str
    adapters: int
    fabric: str
    source: str

    @property
    def model(self) -> GpuModel:
        """Figures of its GPU."""
        from windlass.hardware.facts.gpus import GPUS  # noqa: PLC0415 - loads numpy, which a network profile needs not

        return GPUS[self.gpu]

    @property
    def gbits(self) -> int:
        """Bandwidth between nodes in Gbit/s, of all adapters together."""
        return self.adapters * ADAPTERS[self.adapter].gbits


_AWS = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html"
_GCP = "https://cloud.google.com/compute/docs/gpus/gpu-network-bandwidth"
_AZURE = "https://learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated/"
_OCI = "https://docs.oracle.com/iaas/Content/Compute/References/computeshapes.htm"
_DGX = "https://docs.nvidia.com/dgx/"
_ROWS = (
    Instance("p4d.24xlarge", "aws", "A100-40GB", 8, "EFA", 4, "efa", _AWS),
    Instance("p4de.24xlarge", "aws", "A100-80GB", 8, "EFA", 4, "efa", _AWS),
    Instance("p5.4xlarge", "aws", "H100-80GB", 1, "EFA", 1, "efa", _AWS),
    Instance("p5.48xlarge", "aws", "H100-80GB", 8, "EFA", 32, "efa", _AWS),
    Instance("p5e.48xlarge", "aws", "H200-141GB", 8, "EFA", 32, "efa", _AWS),
    Instance("p5en.48xlarge", "aws", "H200-141GB", 8, "EFA-200", 16, "efa", _AWS),
    Instance("p6-b200.48xlarge", "aws", "B200-180GB", 8, "EFA-400", 8, "efa", _AWS),
    Instance("p6-b300.48xlarge", "aws", "B300-269GB", 8, "EFA-400", 16, "efa", _AWS),
    Instance("g6.48xlarge", "aws", "L4", 8, "EFA", 1, "efa", _AWS),
    Instance("g6e.48xlarge", "aws", "L40S", 8, "EFA", 4, "efa", _AWS),
    Instance("a2-highgpu-8g", "gcp", "A100-40GB", 8, "gVNIC-100", 1, "tcp", _GCP),
    Instance("a2-ultragpu-8g", "gcp", "A100-80GB", 8, "gVNIC-100", 1, "tcp", _GCP),
    Instance("a3-highgpu-8g", "gcp", "H100-80GB", 8, "gVNIC-200", 4, "tcp", _GCP),
    Instance("a3-megagpu-8g", "gcp", "H100-80GB", 8, "gVNIC-200", 8, "tcp", _GCP),
    Instance("a3-ultragpu-8g", "gcp", "H200-141GB", 8, "ConnectX-7", 8, "roce", _GCP),
    Instance("a4-highgpu-8g", "gcp", "B200-180GB", 8, "ConnectX-7", 8, "roce", _GCP),
    Instance("g2-standard-96", "gcp", "L4", 8, "gVNIC-100", 1, "tcp", _GCP),
    Instance("ND96asr_A100_v4", "azure", "A100-40GB", 8, "ConnectX-6", 8, "infiniband", f"{_AZURE}ndasra100v4-series"),
    Instance("ND96amsr_A100_v4", "azure", "A100-80GB", 8, "ConnectX-6", 8, "infiniband", f"{_AZURE}ndma100v4-series"),
    Instance("ND96isr_H100_v5", "azure", "H100-80GB", 8, "ConnectX-7", 8, "infiniband", f"{_AZURE}ndh100v5-series"),
    Instance("ND96isr_H200_v5", "azure", "H200-141GB", 8, "ConnectX-7", 8, "infiniband", f"{_AZURE}nd-h200-v5-series"),
    Instance("ND128isr_GB200_v6", "azure", "GB200", 4, "ConnectX-7", 4, "infiniband", f"{_AZURE}nd-gb200-v6-series"),
    Instance("BM.GPU4.8", "oci", "A100-40GB", 8, "ConnectX-5", 16, "roce", _OCI),
    Instance("BM.GPU.A100-v2.8", "oci", "A100-80GB", 8, "ConnectX-5", 16, "roce", _OCI),
    Instance("BM.GPU.H100.8", "oci", "H100-80GB", 8, "ConnectX-7", 8, "roce", _OCI),
    Instance("BM.GPU.H200.8", "oci", "H200-141GB", 8, "ConnectX-7", 8, "roce", _OCI),
    Instance("DGX-A100-40GB", "nvidia", "A100-40GB", 8, "ConnectX-6", 8, "infiniband", f"{_DGX}dgxa100-user-guide/"),
    Instance("DGX-A100", "nvidia", "A100-80GB", 8, "ConnectX-6", 8, "infiniband", f"{_DGX}dgxa100-user-guide/"),
    Instance("DGX-H100", "nvidia", "H100-80GB", 8, "ConnectX-7", 8, "infiniband", f"{_DGX}dgxh100-user-guide/"),
    Instance("DGX-H200", "nvidia", "H200-141GB", 8, "ConnectX-7", 8, "infiniband", f"{_DGX}dgxh100-user-guide/"),
    Instance("DGX-B200", "nvidia", "B200-180GB", 8, "ConnectX-7", 8, "infiniband", f"{_DGX}dgxb200-user-guide/"),
    Instance("DGX-B300", "nvidia", "B300-269GB", 8, "ConnectX-8", 8, "infiniband", f"{_DGX}dgxb300-user-guide/"),
)

INSTANCES: Mapping[str, Instance] = MappingProxyType({instance.name: instance for instance in _ROWS})
"""Machine types by name; `node.kubernetes.io/instance-type` has the same names, Azure's after "Standard_"."""


_BY_NAME = {row.name.lower(): row for row in _ROWS}


def instance_named(name: str) -> Instance | None:
    """Returns the machine type of a name, in any case, with or without Azure's "Standard_"; None if none has it."""
    return _BY_NAME.get(name.lower().removeprefix("standard_"))


def find_instance(name: str) -> Instance:
    """Returns the machine type of a name as `instance_named` does. Raises PlanError."""
    if found := instance_named(name):
        return found
    near = get_close_matches(name, INSTANCES, 3, 0.4) or list(INSTANCES)
    raise PlanError(f"there is no instance type {name!r} in the table; similar: {', '.join(near)}")
