"""The request of a sharing plan: node pools, workloads and their arrivals."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from windlass.hardware.facts.gpus import GpuModel

USABLE = 0.95
"""Fraction of the nominal memory of a GPU or MIG instance that processes can allocate; the driver holds the rest.

NVIDIA lists 9.75 GiB for 1g.10gb, 16 GiB for 1g.18gb and 10.75 GiB for 1g.12gb: each is above this fraction.
"""


class WorkloadKind(StrEnum):
    """Kind of workload: pods that serve arrivals for as long as they exist, or jobs that run and end."""

    INFERENCE = "inference"
    NOTEBOOK = "notebook"
    TRAINING = "training"
    BATCH = "batch"

    @property
    def is_service(self) -> bool:
        """Tells whether a pod of this kind serves many arrivals."""
        return self in (WorkloadKind.INFERENCE, WorkloadKind.NOTEBOOK)


class Isolation(StrEnum):
    """Weakest acceptable protection from other pods of the same GPU."""

    NONE = "none"
    MEMORY = "memory"
    """No pod can take the memory of another."""
    FAULT = "fault"
    """In addition, a fatal error of one pod ends no other."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Arrivals of one workload: `rate` a second on average, or the times of a trace in seconds.

    During the fraction `duty` of each cycle of `cycle_s` seconds, the rate is `burst` times the average.
    """

    rate: float
    burst: float = 1.0
    duty: float = 1.0
    cycle_s: float = 600.0
    trace: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """`number` equal pods or job slots. `memory` is bytes on each GPU; times are in seconds.

    `duration_s`: of one request, burst of a notebook, or job, alone on whole GPUs of the model `measured_on` (None:
    each pool's own). `compute`: fraction of that model's compute that a busy pod can use. `activity`: fraction of a
    job's time in which it uses the GPU. `latency_s`: limit of the 95th percentile. `slowdown`: limit of the mean time
    relative to whole GPUs, of jobs and of services without a limit of latency.
    """

    name: str
    kind: WorkloadKind
    number: int
    memory: int
    duration_s: float
    gpus: int = 1
    isolation: Isolation = Isolation.NONE
    compute: float = 1.0
    activity: float = 1.0
    latency_s: float | None = None
    slowdown: float = 1.1
    arrivals: Arrivals | None = None
    """None: each job slot always has a job."""
    measured_on: GpuModel | None = None
    use: str = ""
    """Chosen use, such as `mig:2g.20gb`, which the plan judges; empty: the plan chooses."""

    def demand(self, gpu: GpuModel) -> float:
        """Returns the fraction of another model's compute that the pod can use: above 1, it takes longer there.

        The model with fewer operations or less memory bandwidth is the weaker one; a stronger one makes nothing faster.
        """
        if self.measured_on is None:
            return self.compute
        operations = self.measured_on.bf16_flops / gpu.bf16_flops
        return self.compute * max(operations, self.measured_on.bandwidth_gbs / gpu.bandwidth_gbs)


@dataclass(frozen=True, slots=True)
class Pool:
    """`nodes` equal nodes with `gpus` GPUs each. `selector`: labels by which kubectl finds the nodes."""

    name: str
    gpu: GpuModel
    gpus: int
    nodes: int
    selector: str = ""

    @property
    def usable(self) -> int:
        """Bytes of one GPU that processes can allocate."""
        return int(self.gpu.memory * USABLE)


@dataclass(frozen=True, slots=True)
class SharingRequest:
    """Workloads in order of importance: an earlier one is placed first."""

    pools: tuple[Pool, ...]
    workloads: tuple[Workload, ...]
    seed: int = 0
