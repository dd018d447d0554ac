"""The check in the first cell of a notebook: GPUs, CUDA, NCCL and memory, as this process sees them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from windlass.core.model.resources import format_bytes
from windlass.diagnose.host.facts import Cgroup, NvmlReading, TorchPackage
from windlass.diagnose.host.readers.nvml_reader import read_nvml
from windlass.diagnose.host.readers.package_reader import read_torch
from windlass.diagnose.host.readers.system_reader import read_cgroup, read_memory

_ROOT = Path("/")
_SHM = Path("/dev/shm")  # noqa: S108 - a mount, not a file
_SMALL_SHM_BYTES = 1 << 30
"""A smaller /dev/shm is too small for data loaders with several workers; containers have 64 MiB by default."""
_NO_GPU = "no GPU: this member of the gang has none; ask for one with -G 1"


def describe_machine() -> str:
    """Returns a line for each fact of this machine."""
    nvml, torch = read_nvml(), read_torch()
    shm = shutil.disk_usage(_SHM).total if _SHM.is_dir() else 0
    lines = [*_gpus(nvml), *_software(nvml, torch), *_memory(read_memory(_ROOT), read_cgroup(_ROOT), shm)]
    return "\n".join(lines)


def _gpus(nvml: NvmlReading) -> Iterator[str]:
    if nvml.error == "absent":
        yield f"{_NO_GPU} (NVIDIA's driver is not installed)"
    elif nvml.error:
        yield f"no GPU is usable: NVML answers {nvml.error}; see: windlass doctor host"
    elif not nvml.gpus:
        yield _NO_GPU
    for gpu in nvml.gpus:
        memory = f", {format_bytes(gpu.memory_total)}" if gpu.memory_total else ""
        yield f"GPU {gpu.index}: {gpu.name}{memory}"


def _software(nvml: NvmlReading, torch: TorchPackage | None) -> Iterator[str]:
    """Yields lines about driver, CUDA and NCCL; torch is not imported, which would take memory of the GPU."""
    if nvml.driver:
        most = f", CUDA up to {nvml.cuda[0]}.{nvml.cuda[1]}" if nvml.cuda else ""
        yield f"driver {nvml.driver}{most}"
    if torch is None:
        yield "torch is not installed, so there is neither CUDA nor NCCL: pip install 'windlass-train[train]'"
        return
    cuda = f"CUDA {torch.cuda}" if torch.cuda else "no CUDA (a build for CPUs)"
    nccl = f"NCCL {torch.nccl}" if torch.nccl else "no NCCL; ranks use gloo"
    yield f"torch {torch.version}: {cuda}, {nccl}"


def _memory(memory: Mapping[str, int], cgroup: Cgroup, shm: int) -> Iterator[str]:
    total, free = memory.get("MemTotal", 0), memory.get("MemAvailable", 0)
    limit = f", limit of this container {format_bytes(cgroup.memory_max)}" if cgroup.memory_max else ""
    yield f"memory {format_bytes(total)}, {format_bytes(free)} available{limit}"
    small = "; too small for data loaders with several workers" if shm < _SMALL_SHM_BYTES else ""
    yield f"{_SHM} {format_bytes(shm)}{small}"
