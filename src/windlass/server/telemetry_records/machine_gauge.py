"""Measures this machine for its nodes: CPU and memory by /proc, GPUs by NVML where the driver has it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from windlass.backends.local.gpus import load_nvml
from windlass.server.telemetry_records.node_measurements import GpuMeasurement, NodeMeasurement

_INTERVAL_S = 2.0
_MAX_AGE_S = 30.0
"""Age above which a measurement is not used: the driver hangs."""
_PROC = Path("/proc")


class MachineGauge:
    """Measures in a thread, because a driver may hang. The thread does not keep the process from ending.

    `gpus_of`: ids of the real GPUs of each node. Nodes that are declared on one machine share its CPU and memory.
    """

    def __init__(self, nodes: tuple[str, ...], gpus_of: Mapping[str, tuple[str, ...]]) -> None:
        self._nodes, self._gpus_of = nodes, gpus_of
        self._newest: tuple[float, dict[str, NodeMeasurement]] = (0.0, {})
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._measure, name="machine gauge", daemon=True)

    def measure(self) -> dict[str, NodeMeasurement]:
        """Returns the newest measurement of each node, and starts measuring at the first call."""
        if self._thread.ident is None:
            self._thread.start()
        at, found = self._newest
        return found if time.monotonic() - at < _MAX_AGE_S else {}

    def close(self) -> None:
        """Ends measuring."""
        self._closed.set()

    def _measure(self) -> None:
        gpus = GpuReader(load_nvml) if any(self._gpus_of.values()) else None
        before = read_cpu_times(_PROC)
        while not self._closed.wait(_INTERVAL_S):
            after = read_cpu_times(_PROC)
            machine = NodeMeasurement(cpu_use(before, after), read_used_memory(_PROC))
            before = after
            by_id = gpus.read() if gpus is not None else {}
            self._newest = time.monotonic(), {name: self._of_node(name, machine, by_id) for name in self._nodes}

    def _of_node(self, name: str, machine: NodeMeasurement, gpus: Mapping[str, GpuMeasurement]) -> NodeMeasurement:
        missing = GpuMeasurement(is_healthy=False)
        own = [gpus.get(uuid, missing) for uuid in self._gpus_of.get(name, ())] if gpus else []
        return NodeMeasurement(machine.cpu, machine.memory, own, names_gpus=bool(own))


class GpuReader:
    """Reads all GPUs by NVML. `load`: returns the module pynvml, or None without a driver."""

    def __init__(self, load: Callable[[], ModuleType | None]) -> None:
        self._nvml: Any = load()
        if self._nvml is not None:
            try:
                self._nvml.nvmlInit()
            except self._nvml.NVMLError:
                self._nvml = None

    def read(self) -> dict[str, GpuMeasurement]:
        """Returns the GPUs by UUID. One that is lost is missing; empty without a driver."""
        if self._nvml is None:
            return {}
        found = (self._read(index) for index in range(self._ask("nvmlDeviceGetCount") or 0))
        return {uuid: gpu for uuid, gpu in found if uuid}

    def _read(self, index: int) -> tuple[str, GpuMeasurement]:
        gpu = self._ask("nvmlDeviceGetHandleByIndex", index)
        uuid = None if gpu is None else self._ask("nvmlDeviceGetUUID", gpu)
        if uuid is None:
            return "", GpuMeasurement()
        use, memory = self._ask("nvmlDeviceGetUtilizationRates", gpu), self._ask("nvmlDeviceGetMemoryInfo", gpu)
        return uuid.decode() if isinstance(uuid, bytes) else uuid, GpuMeasurement(
            None if use is None else use.gpu / 100,
            None if memory is None else float(memory.used),
            self._ask("nvmlDeviceGetTemperature", gpu, 0),  # NVML_TEMPERATURE_GPU
            is_healthy=self._is_healthy(gpu),
        )

    def _is_healthy(self, gpu: Any) -> bool | None:
        """Whether no memory error waits for a reset or a repair; None if the GPU tells nothing about it."""
        rows = self._ask("nvmlDeviceGetRemappedRows", gpu)  # corrected, uncorrected, pending, failed
        retired = self._ask("nvmlDeviceGetRetiredPagesPendingStatus", gpu)
        signs = [*(rows[2:4] if rows is not None else ()), *([retired] if retired is not None else ())]
        return not any(signs) if signs else None

    def _ask(self, function: str, *arguments: Any) -> Any:
        """Calls a function of NVML; None where it fails or does not exist."""
        try:
            return getattr(self._nvml, function)(*arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None


def read_cpu_times(proc: Path) -> tuple[int, int] | None:
    """Returns the busy and the whole CPU time of the machine in ticks; None without /proc/stat."""
    try:
        ticks = [int(each) for each in (proc / "stat").read_text().split("\n", 1)[0].split()[1:9]]
        idle = ticks[3] + ticks[4]  # idle, and waiting for a disk
    except (OSError, ValueError, IndexError):
        return None
    return sum(ticks) - idle, sum(ticks)


def cpu_use(before: tuple[int, int] | None, after: tuple[int, int] | None) -> float | None:
    """Returns the busy part of the time between two readings, from 0 to 1."""
    if before is None or after is None or after[1] <= before[1]:
        return None
    return min(1.0, max(0.0, (after[0] - before[0]) / (after[1] - before[1])))


def read_used_memory(proc: Path) -> float | None:
    """Returns the memory in use without caches, in bytes; None without /proc/meminfo."""
    try:
        lines = dict(line.split(":", 1) for line in (proc / "meminfo").read_text().splitlines())
        total, available = (int(lines[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
    except (OSError, ValueError, KeyError, IndexError):
        return None
    return float((total - available) * 1024)
