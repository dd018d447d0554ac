"""Facts of one machine, as read: no judgement. Everything that could not be read is empty or None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NVIDIA, AMD, MELLANOX, AMAZON = 0x10DE, 0x1002, 0x15B3, 0x1D0F
"""Vendor numbers of the PCI devices that the checks know."""

UNASKED = "unasked"
"""In place of an error: the question was not asked, because the machine is only mounted here."""


@dataclass(frozen=True, slots=True)
class PciDevice:
    """A device on the PCI bus.

    `kind`: class code of 24 bits; `speed`, `width`: of the link now and at most, "" where the device has no link;
    `bridges`: addresses of the bridges between it and the root, nearest first; `acs`: control register of the access
    control services of a bridge, None without them; `is_readable`: its whole configuration space could be read;
    `iommu`: type of its IOMMU group, "" without one.
    """

    address: str
    vendor: int
    device: int
    kind: int
    driver: str = ""
    speed: str = ""
    max_speed: str = ""
    width: str = ""
    max_width: str = ""
    bridges: tuple[str, ...] = ()
    acs: int | None = None
    is_readable: bool = True
    iommu: str = ""

    @property
    def is_gpu(self) -> bool:
        """VGA controller, 3D controller or processing accelerator of a GPU vendor."""
        return self.vendor in (NVIDIA, AMD) and self.kind >> 8 in (0x0300, 0x0302, 0x0380, 0x1200)

    @property
    def is_nvswitch(self) -> bool:
        """NVSwitch: a bridge of the class "other" by NVIDIA."""
        return self.vendor == NVIDIA and self.kind >> 8 == 0x0680


@dataclass(frozen=True, slots=True)
class GpuReading:
    """Values of one GPU from NVML; None where the GPU or the driver does not have them.

    `bus`: PCI address; `clock_reasons`: bit field of the reasons for a reduced clock; `fabric`: state of the
    registration with the NVLink fabric (0 none, 1 not started, 2 in progress, 3 completed); `retired`: pages retired;
    `peers`: index of each other GPU → NVML's status of direct reads (0 is possible).
    """

    index: int
    name: str
    uuid: str
    bus: str
    capability: tuple[int, int] | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    temperature: int | None = None
    persistence: bool | None = None
    mig: bool | None = None
    ecc: bool | None = None
    ecc_pending: bool | None = None
    uncorrected: int | None = None
    retired: int | None = None
    retirement_pending: bool | None = None
    remapped: int | None = None
    remapping_pending: bool | None = None
    remapping_failed: bool | None = None
    clock_reasons: int | None = None
    sm_clock: int | None = None
    max_sm_clock: int | None = None
    links_up: int | None = None
    links_down: int | None = None
    fabric: int | None = None
    peers: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NvmlReading:
    """Answers of NVML. `error`: of its start; "" if it started, "absent" without the library, or UNASKED."""

    error: str = "absent"
    driver: str = ""
    cuda: tuple[int, int] | None = None
    gpus: tuple[GpuReading, ...] = ()


@dataclass(frozen=True, slots=True)
class FileSystem:
    """Capacity of the file system of a folder, in bytes and inodes (0 where they are not limited)."""

    path: str
    total: int
    free: int
    inodes: int
    free_inodes: int
    read_only: bool = False
    device: int = 0
    """Number of the device: folders with the same one share the capacity."""


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """A port of an RDMA device. `gids`: (index, address, type, interface) of every address that is set."""

    device: str
    port: int
    driver: str
    state: str
    physical_state: str
    link_layer: str
    rate: str
    gids: tuple[tuple[int, str, str, str], ...] = ()

    @property
    def is_active(self) -> bool:
        """The link is up and configured."""
        return self.state.endswith("ACTIVE")


@dataclass(frozen=True, slots=True)
class KernelLog:
    """Lines of the kernel log about GPUs. `source`: the file, "" if none could be read."""

    source: str = ""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TorchPackage:
    """The installed torch, without importing it. `cuda`: version it was built for, "" for CPU; `nccl`: pinned NCCL."""

    version: str
    cuda: str = ""
    nccl: str = ""


@dataclass(frozen=True, slots=True)
class ClockState:
    """State of the kernel's clock. `synchronized`: None if the call is not possible."""

    synchronized: bool | None = None
    max_error_us: int | None = None


@dataclass(frozen=True, slots=True)
class OwnName:
    """The name of this machine, the addresses it resolves to, and the addresses of its interfaces."""

    name: str
    resolved: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class ContainerToolkit:
    """NVIDIA's container toolkit on this machine.

    `programs`: those that are installed; `runtimes`: configuration files of container runtimes that name it; `cdi`:
    file of a CDI specification → driver version that its libraries have.
    """

    programs: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()
    cdi: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cgroup:
    """Limits of the control group of this process in bytes and processes; None without a limit."""

    memory_max: int | None = None
    memory_used: int | None = None
    pids_max: int | None = None


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Everything that the checks know about one machine.

    `driver`: version of NVIDIA's kernel module; `libraries`: file name without version → versions of the files;
    `compatible_driver`: version of CUDA's forward compatibility package, "" without it; `node_errors`: device node →
    error of opening it, "" if it opened; `limits`: name → (soft, hard), None is unlimited; `packages`: distribution →
    version; `preloaded`: NCCL libraries that the environment puts first; `variables`: those of the environment that
    NCCL and libfabric read.
    """

    host: str = ""
    kernel: str = ""
    is_virtual: bool = False
    container: str = ""
    memory: Mapping[str, int] = field(default_factory=dict)
    processes: frozenset[str] = frozenset()
    modules: Mapping[str, str] = field(default_factory=dict)
    driver: str = ""
    is_open_driver: bool = False
    libraries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    compatible_driver: str = ""
    pci: tuple[PciDevice, ...] = ()
    node_errors: Mapping[str, str] = field(default_factory=dict)
    nvml: NvmlReading = NvmlReading()
    kernel_log: KernelLog = KernelLog()
    torch: TorchPackage | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    preloaded: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    shm: FileSystem | None = None
    disks: tuple[FileSystem, ...] = ()
    cgroup: Cgroup = Cgroup()
    toolkit: ContainerToolkit = ContainerToolkit()
    rdma: tuple[RdmaPort, ...] = ()
    own_name: OwnName = OwnName("")
    clock: ClockState = ClockState()

    @property
    def nvidia_gpus(self) -> tuple[PciDevice, ...]:
        """NVIDIA's GPUs on the PCI bus."""
        return tuple(device for device in self.pci if device.is_gpu and device.vendor == NVIDIA)

    @property
    def has_gpus(self) -> bool:
        """Whether the machine has NVIDIA GPUs, by the bus or by the driver: a container may hide the bus."""
        return bool(self.nvidia_gpus or self.driver or self.nvml.gpus)
