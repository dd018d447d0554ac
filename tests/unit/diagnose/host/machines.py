"""Machines as trees of /proc, /sys, /dev and /etc, with the answers of NVML and of the system calls."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from windlass.diagnose.check_pages import find_check
from windlass.diagnose.host.checklist import check_host
from windlass.diagnose.host.facts import ClockState, FileSystem, GpuReading, NvmlReading, OwnName, TorchPackage
from windlass.diagnose.host.readers.host_reader import read_host
from windlass.diagnose.host.readers.live_calls import LiveCalls
from windlass.diagnose.steps import CheckStep

GIB = 1 << 30
DRIVER = "570.133.20"
LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max processes             unlimited            unlimited            processes
Max open files            1048576              1048576              files
Max locked memory         {memlock}            unlimited            bytes
"""


SHM = FileSystem("/dev/shm", 64 * GIB, 64 * GIB, 0, 0)
DISK = FileSystem("/", 1000 * GIB, 500 * GIB, 10**7, 10**7)
NAME, KEPT_CLOCK, NO_NVML = OwnName("n1", ("10.0.0.7",), ("10.0.0.7",)), ClockState(True, 1500), NvmlReading()


@dataclass(frozen=True)
class Machine:
    """Files of a machine by path, and the answers of its calls. A test changes one of them."""

    files: Mapping[str, str | bytes] = field(default_factory=dict)
    nvml: NvmlReading = NO_NVML
    torch: TorchPackage | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    shm: FileSystem | None = SHM
    disk: FileSystem = DISK
    own_name: OwnName = NAME
    clock: ClockState = KEPT_CLOCK
    open_errors: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    def having(self, **changed: object) -> Machine:
        return replace(self, **changed)

    def with_file(self, path: str, content: str | bytes) -> Machine:
        return replace(self, files={**self.files, path: content})

    def without(self, prefix: str) -> Machine:
        kept = {path: content for path, content in self.files.items() if not path.startswith(prefix)}
        return replace(self, files=kept)

    def with_gpu(self, index: int, **changed: object) -> Machine:
        gpus = [replace(gpu, **changed) if gpu.index == index else gpu for gpu in self.nvml.gpus]
        return replace(self, nvml=replace(self.nvml, gpus=tuple(gpus)))

    def write(self, root: Path) -> None:
        """Writes the files below `root`."""
        for path, content in self.files.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())

    def check(self, root: Path) -> dict[str, CheckStep]:
        """Writes the files below `root`, reads them as a machine, and returns the steps by name."""
        self.write(root)
        calls = LiveCalls(
            nvml=lambda: self.nvml,
            torch=lambda: self.torch,
            packages=lambda: self.packages,
            file_system=lambda _path, shown: self.shm if shown == "/dev/shm" else self.disk,
            own_name=lambda: self.own_name,
            clock=lambda: self.clock,
            open_error=lambda path: self.open_errors.get(path.name, ""),
        )
        steps = check_host(read_host(root, calls, environment=self.environment))
        assert len({step.name for step in steps}) == len(steps)
        assert all(find_check(step.name) for step in steps)
        return {step.name: step for step in steps}


def pci(address: str, vendor: str, device: str, kind: str, **more: str | bytes) -> dict[str, str | bytes]:
    """Returns the files of one PCI device."""
    entries = {"vendor": vendor, "device": device, "class": kind, "config": config_space(None), **more}
    return {f"sys/bus/pci/devices/{address}/{name}": content for name, content in entries.items()}


def config_space(acs: int | None) -> bytes:
    """Returns a configuration space of 4096 bytes: another capability, and then ACS with this control register."""
    space = bytearray(4096)
    space[0x100:0x104] = struct.pack("<HH", 0x0001, 0x1 | (0x140 << 4) if acs is not None else 0x1)
    if acs is not None:
        space[0x140:0x148] = struct.pack("<HHHH", 0x000D, 0x1, 0x1F, acs)
    return bytes(space)


def _gpus_on_bus() -> dict[str, str | bytes]:
    link = {"current_link_width": "16", "max_link_width": "16", "max_link_speed": "32.0 GT/s PCIe", "driver": "nvidia"}
    found: dict[str, str | bytes] = {}
    for bus in range(8):
        found |= pci(f"0000:{bus + 0x10:02x}:00.0", "0x10de", "0x2330", "0x030200", **link)
    return found


def _ports() -> dict[str, str | bytes]:
    found: dict[str, str | bytes] = {}
    for number in range(8):
        port = f"sys/class/infiniband/mlx5_{number}/ports/1"
        found |= {
            f"sys/class/infiniband/mlx5_{number}/device/driver": "mlx5_core",
            f"{port}/state": "4: ACTIVE",
            f"{port}/phys_state": "5: LinkUp",
            f"{port}/link_layer": "InfiniBand",
            f"{port}/rate": "400 Gb/sec (4X NDR)",
            f"{port}/gids/0": "fe80:0000:0000:0000:b83f:d203:00e4:f30e",
            f"{port}/gids/1": "0000:0000:0000:0000:0000:0000:0000:0000",
            f"dev/infiniband/uverbs{number}": "",
        }
    return found


BARE = Machine(
    MappingProxyType(
        {
            "proc/sys/kernel/osrelease": "6.8.0-60-generic",
            "proc/self/limits": LIMITS.format(memlock="8388608"),
            "proc/meminfo": "MemTotal:       2113455804 kB\nMemAvailable:   2000000000 kB\n",
            "proc/1/comm": "systemd",
            "proc/77/comm": "chronyd",
            "etc/hostname": "n1",
            "sys/bus/pci/devices/0000:00:00.0/vendor": "0x8086",
            "sys/bus/pci/devices/0000:00:00.0/class": "0x060000",
            "var/log/kern.log": "kernel: Linux version 6.8.0-60-generic\n",
        }
    )
)
"""A machine without GPUs."""

GPU = GpuReading(
    0,
    "NVIDIA H100 80GB HBM3",
    "GPU-0",
    "",
    capability=(9, 0),
    memory_total=80 * GIB,
    memory_used=0,
    temperature=35,
    persistence=True,
    mig=False,
    ecc=True,
    ecc_pending=False,
    uncorrected=0,
    remapped=0,
    remapping_pending=False,
    remapping_failed=False,
    clock_reasons=1,
    sm_clock=345,
    max_sm_clock=1980,
    links_up=18,
    links_down=0,
    fabric=3,
)


def _gpu_reading(index: int) -> GpuReading:
    peers = {other: 0 for other in range(8) if other != index}
    return replace(GPU, index=index, uuid=f"GPU-{index}", bus=f"0000:{index + 0x10:02x}:00.0", peers=peers)


NODE = BARE.having(
    files=MappingProxyType(
        {
            **BARE.files,
            **_gpus_on_bus(),
            **{f"dev/nvidia{index}": "" for index in range(8)},
            **{f"dev/{name}": "" for name in ("nvidiactl", "nvidia-uvm")},
            **_ports(),
            **pci("0000:05:00.0", "0x10de", "0x22a3", "0x068000"),
            "proc/self/limits": LIMITS.format(memlock="unlimited"),
            "proc/modules": "nvidia_uvm 1 0 - Live 0x0\nnvidia_peermem 1 0 - Live 0x0\nnvidia 1 1 - Live 0x0\n",
            "proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {DRIVER}  Release",
            "proc/88/comm": "nv-fabricmanage",
            f"usr/lib/x86_64-linux-gnu/libcuda.so.{DRIVER}": "",
            f"usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{DRIVER}": "",
            "usr/lib/x86_64-linux-gnu/libcuda.so.1": "",
            "usr/bin/nvidia-ctk": "",
            "etc/containerd/config.toml": 'runtimes.nvidia.options.BinaryName = "/usr/bin/nvidia-container-runtime"',
            "etc/cdi/nvidia.yaml": f"kind: nvidia.com/gpu\nhostPath: /usr/lib/libcuda.so.{DRIVER}\n",
        }
    ),
    nvml=NvmlReading("", DRIVER, (12, 8), tuple(map(_gpu_reading, range(8)))),
    torch=TorchPackage("2.7.0+cu128", "12.8", "2.26.2"),
    packages={"torch": "2.7.0", "nvidia-nccl-cu12": "2.26.2"},
)
"""A healthy node with eight H100 and eight InfiniBand cards."""
