"""How much of a GPU is used, from its driver (NVML), where `nvidia-ml-py` is installed; else nothing."""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Any

import torch

_SECONDS = 1.0


class Gauge:
    """Looks at this rank's GPU once a second, in a thread: the driver may take its time, and no step waits for it."""

    def __init__(self, device: torch.device) -> None:
        self._values: dict[str, float] = {}
        self._closed = threading.Event()
        if device.type == "cuda":
            uuid = str(torch.cuda.get_device_properties(device).uuid)
            threading.Thread(target=self._watch, args=(uuid,), name="nvml", daemon=True).start()

    def values(self) -> dict[str, float]:
        """`gpu_utilisation`, from 0 to 1, and `gpu_memory`, in bytes over all processes: as they were last."""
        return dict(self._values)

    def close(self) -> None:
        """No more looks."""
        self._closed.set()

    def _watch(self, uuid: str) -> None:
        try:
            nvml: Any = import_module("pynvml")
        except ImportError:
            return
        try:
            nvml.nvmlInit()
            gpu = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
            while not self._closed.wait(_SECONDS):
                self._values = look(nvml, gpu)
        except nvml.NVMLError:  # a slice of a GPU, or a driver that says nothing: then nothing is known
            self._values = {}


def look(nvml: Any, gpu: Any) -> dict[str, float]:
    """What the driver says of a GPU now. `nvml`: the module pynvml. Raises its NVMLError."""
    return {
        "gpu_utilisation": nvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100,
        "gpu_memory": float(nvml.nvmlDeviceGetMemoryInfo(gpu).used),
    }
