"""Reads GPU utilisation and memory from the driver (NVML), where `nvidia-ml-py` is installed."""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Any

import torch

_INTERVAL_S = 1.0
_SLOWDOWN_REASONS = 0x08 | 0x20 | 0x40 | 0x80
"""NVML's bits for slowdowns by hardware, temperature (driver and hardware) and an external power brake."""


class GpuGauge:
    """Samples this rank's GPU once a second in a thread, because the driver may be slow and no step may wait for it."""

    def __init__(self, device: torch.device) -> None:
        self._values: dict[str, float] = {}
        self._closed = threading.Event()
        if device.type == "cuda":
            uuid = str(torch.cuda.get_device_properties(device).uuid)
            threading.Thread(target=self._watch, args=(uuid,), name="nvml", daemon=True).start()

    def values(self) -> dict[str, float]:
        """Return the last sample: `gpu_utilisation` from 0 to 1, `gpu_memory` in bytes of all processes, clocks, °C."""
        return dict(self._values)

    def close(self) -> None:
        """Stop sampling."""
        self._closed.set()

    def _watch(self, uuid: str) -> None:
        try:
            nvml: Any = import_module("pynvml")
        except ImportError:
            return
        try:
            nvml.nvmlInit()
            gpu = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
            while not self._closed.wait(_INTERVAL_S):
                self._values = read_gpu(nvml, gpu)
        except nvml.NVMLError:  # a MIG slice, or a driver without these values
            self._values = {}


def read_gpu(nvml: Any, gpu: Any) -> dict[str, float]:
    """Read the current values of a GPU. `nvml`: the module pynvml. Raises its NVMLError."""
    return {
        "gpu_utilisation": nvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100,
        "gpu_memory": float(nvml.nvmlDeviceGetMemoryInfo(gpu).used),
        **_read_clocks(nvml, gpu),
        **_read_temperature(nvml, gpu),
    }


def _read_temperature(nvml: Any, gpu: Any) -> dict[str, float]:
    """Return the temperature in °C; nothing if it is hidden."""
    try:
        return {"gpu_temperature": float(nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU))}
    except nvml.NVMLError:
        return {}


def _read_clocks(nvml: Any, gpu: Any) -> dict[str, float]:
    """Return the SM clock and its maximum in MHz, and whether heat or power lowers it; nothing if they are hidden."""
    try:
        reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)
        return {
            "gpu_sm_clock": float(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)),
            "gpu_max_sm_clock": float(nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM)),
            "gpu_slowdown": float(bool(reasons & _SLOWDOWN_REASONS)),
        }
    except nvml.NVMLError:
        return {}
