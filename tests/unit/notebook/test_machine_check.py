"""The lines of the first cell, with and without GPUs."""

from __future__ import annotations

from windlass.diagnose.host.facts import Cgroup, GpuReading, NvmlReading, TorchPackage
from windlass.notebook import check_machine, machine_check


def test_without_a_gpu_the_first_line_says_so():
    assert list(machine_check._gpus(NvmlReading())) == [
        "no GPU: this member of the gang has none; ask for one with -G 1 (NVIDIA's driver is not installed)"
    ]
    assert list(machine_check._gpus(NvmlReading(error=""))) == [
        "no GPU: this member of the gang has none; ask for one with -G 1"
    ]
    (line,) = machine_check._gpus(NvmlReading(error="Driver/library version mismatch"))
    assert "Driver/library version mismatch" in line
    assert "windlass doctor host" in line


def test_gpus_are_listed_with_driver_cuda_and_nccl():
    gpu = GpuReading(0, "NVIDIA H100 80GB HBM3", "GPU-1", "0000:01:00.0", memory_total=80 << 30)
    nvml = NvmlReading("", "580.1", (13, 0), (gpu,))
    lines = [
        *machine_check._gpus(nvml),
        *machine_check._software(nvml, TorchPackage("2.13.0+cu130", "13.0", "2.29.7")),
    ]
    assert lines == [
        "GPU 0: NVIDIA H100 80GB HBM3, 80 GiB",
        "driver 580.1, CUDA up to 13.0",
        "torch 2.13.0+cu130: CUDA 13.0, NCCL 2.29.7",
    ]


def test_a_small_shared_memory_is_named():
    lines = machine_check._memory({"MemTotal": 8 << 30, "MemAvailable": 4 << 30}, Cgroup(2 << 30), 64 << 20)
    assert list(lines) == [
        "memory 8 GiB, 4 GiB available, limit of this container 2 GiB",
        "/dev/shm 64 MiB; too small for data loaders with several workers",
    ]


def test_this_machine_has_memory():
    assert "\nmemory " in check_machine()
