"""GPU models: memory, memory bandwidth, NVLink, dense operations per second by precision, and MIG geometry.

The bf16 figures are those of `train.telemetry.flops`, which computes utilisation from them; the MIG places are those of
`core.model.mig`, by which the scheduler places instances. All operations are dense: data sheets often state twice as
many, with sparsity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType

from windlass.core.model.mig import GEOMETRIES, Geometry
from windlass.hardware.errors import PlanError
from windlass.train.telemetry.flops import PEAK

_GB = 10**9
_TERA = 10**12


@dataclass(frozen=True, slots=True)
class GpuModel:
    """Figures of one GPU model.

    `peak`: its row in the table of bf16 peaks; `memory_gb` and `bandwidth_gbs` in units of 10⁹ bytes (a second);
    `nvlink_gbs`: to all other GPUs of the node, both directions together, 0 without NVLink; `fp8_tflops`,
    `tf32_tflops`: 0 where the GPU has no such units; `source`: the document of the figures.
    """

    name: str
    peak: str
    memory_gb: int
    bandwidth_gbs: int
    nvlink_gbs: int
    fp8_tflops: float
    tf32_tflops: float
    fp32_tflops: float
    source: str

    @property
    def memory(self) -> int:
        """Memory in bytes."""
        return self.memory_gb * _GB

    @property
    def bf16_flops(self) -> float:
        """Dense operations a second in bf16; before Ampere in fp16."""
        return PEAK[self.peak]

    @property
    def geometry(self) -> Geometry | None:
        """MIG profiles with their places; None without MIG, or where the table has no geometry."""
        return GEOMETRIES.get(_SAME_PLACES.get(self.name, self.name))

    def flops(self, precision: str) -> float:
        """Returns dense operations a second in fp8, bf16, tf32 or fp32; 0 where the GPU lacks the precision."""
        if precision == "bf16":
            return self.bf16_flops
        return {"fp8": self.fp8_tflops, "tf32": self.tf32_tflops, "fp32": self.fp32_tflops}[precision] * _TERA


_SAME_PLACES = {"H100-PCIe": "H100-80GB", "H800": "H100-80GB", "A800": "A100-80GB"}
"""Model → the model with the same memory and MIG places, by the GPU Operator's `default-mig-parted-config`."""


def _source(path: str) -> str:
    return f"https://www.nvidia.com/en-us/data-center/{path}/"


_ROWS = (
    GpuModel("B300-269GB", "B300", 288, 8000, 1800, 4500, 1125, 75, _source("dgx-b300")),
    GpuModel("GB200", "GB200", 186, 8000, 1800, 5000, 1250, 80, _source("gb200-nvl72")),
    GpuModel("B200-180GB", "B200", 180, 8000, 1800, 4500, 1125, 75, _source("dgx-b200")),
    GpuModel("H200-141GB", "H200", 141, 4800, 900, 1979, 494, 67, _source("h200")),
    GpuModel("GH200-96GB", "GH200", 96, 4000, 0, 1979, 494, 67, _source("grace-hopper-superchip")),
    GpuModel("H100-80GB", "H100", 80, 3350, 900, 1979, 494, 67, _source("h100")),
    GpuModel("H100-94GB", "H100 NVL", 94, 3900, 600, 1671, 417, 60, _source("h100")),
    GpuModel("H100-PCIe", "H100 PCIe", 80, 2000, 600, 1513, 378, 51, _source("h100")),
    GpuModel("H800", "H800", 80, 3350, 400, 1979, 494, 67, _source("h100")),
    # No public data sheet of the H20: the source states its memory, distributors the rest.
    GpuModel("H20-96GB", "H20", 96, 4000, 900, 296, 74, 44, "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/"),
    GpuModel("A100-80GB", "A100", 80, 2039, 600, 0, 156, 19.5, _source("a100")),
    GpuModel("A100-40GB", "A100", 40, 1555, 600, 0, 156, 19.5, _source("a100")),
    GpuModel("A800", "A800", 80, 2039, 400, 0, 156, 19.5, _source("a100")),
    GpuModel("A40", "A40", 48, 696, 112, 0, 74.8, 37.4, _source("a40")),
    GpuModel("A30-24GB", "A30", 24, 933, 200, 0, 82, 10.3, _source("products/a30-gpu")),
    GpuModel("A10", "A10", 24, 600, 0, 0, 62.5, 31.2, _source("products/a10-gpu")),
    GpuModel("L40S", "L40S", 48, 864, 0, 733, 183, 91.6, _source("l40s")),
    GpuModel("L40", "L40", 48, 864, 0, 362, 90.5, 90.5, _source("l40")),
    GpuModel("L4", "L4", 24, 300, 0, 242, 60, 30.3, _source("l4")),
    GpuModel("V100-32GB", "V100", 32, 900, 300, 0, 0, 15.7, _source("v100")),
    GpuModel("V100-16GB", "V100", 16, 900, 300, 0, 0, 15.7, _source("v100")),
    GpuModel("V100-PCIe", "V100 PCIE", 16, 900, 0, 0, 0, 14, _source("v100")),
    GpuModel("T4", "T4", 16, 320, 0, 0, 0, 8.1, _source("tesla-t4")),
)

GPUS: Mapping[str, GpuModel] = MappingProxyType({gpu.name: gpu for gpu in _ROWS})
"""GPU models by name. Where the scheduler knows MIG places, the name is the one of `core.model.mig`."""


def find_gpu(name: str) -> GpuModel:
    """Returns the model of a name such as "H100-80GB", or "H200" where only one size exists. Raises PlanError."""
    wanted = name.upper()
    if exact := next((gpu for gpu in _ROWS if gpu.name.upper() == wanted), None):
        return exact
    alike = [gpu for gpu in _ROWS if gpu.name.upper().split("-")[0] == wanted]
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise PlanError(f"several models are called {name}; name one of {', '.join(gpu.name for gpu in alike)}")
    near = get_close_matches(wanted, GPUS, 3, 0.4) or list(GPUS)
    raise PlanError(f"there is no GPU {name!r} in the table; similar: {', '.join(near)}")
