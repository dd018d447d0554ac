"""Reads the state of all GPUs by NVML. Every value is optional: a GPU, a driver or a MIG mode may not have it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib import import_module
from typing import Any

from windlass.diagnose.host.facts import GpuReading, NvmlReading

_LIBRARY = "libnvidia-ml.so.1"
_MAX_PAIRED_GPUS = 16


def load_nvml() -> Any | None:
    """Returns the module pynvml; None where the driver's library is missing, without importing it."""
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return None
    return import_module("pynvml")


def read_nvml(load: Callable[[], Any | None] = load_nvml) -> NvmlReading:
    """Returns what NVML says about the driver and every GPU; the name of the error if it does not start."""
    nvml = load()
    if nvml is None:
        return NvmlReading()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return NvmlReading(error=type(error).__name__.removeprefix("NVMLError_"))
    ask = _Query(nvml)
    cuda = ask("nvmlSystemGetCudaDriverVersion")
    gpus = tuple(_read_gpu(ask, index) for index in range(ask("nvmlDeviceGetCount") or 0))
    return NvmlReading("", _text(ask("nvmlSystemGetDriverVersion")), cuda and (cuda // 1000, cuda % 1000 // 10), gpus)


class _Query:
    """Calls functions of NVML by name; the answer of a function that fails or does not exist is None."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml

    def __call__(self, function: str, *arguments: Any) -> Any:
        try:
            return getattr(self._nvml, function)(*arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None

    def constant(self, name: str, default: int) -> int:
        """Returns a constant, or its value of today if this version of pynvml does not have it."""
        return int(getattr(self._nvml, name, default))


def _read_gpu(ask: _Query, index: int) -> GpuReading:
    gpu = ask("nvmlDeviceGetHandleByIndex", index)
    if gpu is None:  # a lost GPU stays in the count
        return GpuReading(index, "unreachable", "", "")
    memory, mig = ask("nvmlDeviceGetMemoryInfo", gpu), ask("nvmlDeviceGetMigMode", gpu)
    ecc, ecc_pending, uncorrected = _ecc(ask, gpu)
    retired, retirement_pending = _retired(ask, gpu)
    remapped, remapping_pending, remapping_failed = _remapped(ask, gpu)
    links_up, links_down = _links(ask, gpu)
    clock = ask.constant("NVML_CLOCK_SM", 1)
    return GpuReading(
        index,
        _text(ask("nvmlDeviceGetName", gpu)),
        _text(ask("nvmlDeviceGetUUID", gpu)),
        _bus(ask, gpu),
        capability=_pair(ask("nvmlDeviceGetCudaComputeCapability", gpu)),
        memory_total=memory and memory.total,
        memory_used=memory and memory.used,
        temperature=ask("nvmlDeviceGetTemperature", gpu, ask.constant("NVML_TEMPERATURE_GPU", 0)),
        persistence=_boolean(ask("nvmlDeviceGetPersistenceMode", gpu)),
        mig=_boolean(mig and mig[0]),
        ecc=ecc,
        ecc_pending=ecc_pending,
        uncorrected=uncorrected,
        retired=retired,
        retirement_pending=retirement_pending,
        remapped=remapped,
        remapping_pending=remapping_pending,
        remapping_failed=remapping_failed,
        clock_reasons=ask("nvmlDeviceGetCurrentClocksThrottleReasons", gpu),
        sm_clock=ask("nvmlDeviceGetClockInfo", gpu, clock),
        max_sm_clock=ask("nvmlDeviceGetMaxClockInfo", gpu, clock),
        links_up=links_up,
        links_down=links_down,
        fabric=_fabric(ask, gpu),
        peers=_peers(ask, gpu, index),
    )


def _bus(ask: _Query, gpu: Any) -> str:
    """Returns the address as sysfs writes it: NVML's domain has eight digits."""
    information = ask("nvmlDeviceGetPciInfo", gpu)
    return _text(information.busId).lower().removeprefix("0000") if information else ""


def _ecc(ask: _Query, gpu: Any) -> tuple[bool | None, bool | None, int | None]:
    mode = _pair(ask("nvmlDeviceGetEccMode", gpu))
    kind = ask.constant("NVML_MEMORY_ERROR_TYPE_UNCORRECTED", 1), ask.constant("NVML_VOLATILE_ECC", 0)
    uncorrected = ask("nvmlDeviceGetTotalEccErrors", gpu, *kind)
    return (bool(mode[0]), mode[0] != mode[1], uncorrected) if mode else (None, None, uncorrected)


def _retired(ask: _Query, gpu: Any) -> tuple[int | None, bool | None]:
    causes = (
        ask.constant("NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS", 0),
        ask.constant("NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR", 1),
    )
    pages = [found for cause in causes if (found := ask("nvmlDeviceGetRetiredPages", gpu, cause)) is not None]
    pending = ask("nvmlDeviceGetRetiredPagesPendingStatus", gpu)
    return sum(map(len, pages)) if pages else None, _boolean(pending)


def _remapped(ask: _Query, gpu: Any) -> tuple[int | None, bool | None, bool | None]:
    rows = ask("nvmlDeviceGetRemappedRows", gpu)
    if rows is None:
        return None, None, None
    corrected, uncorrected, pending, failed = rows
    return corrected + uncorrected, bool(pending), bool(failed)


def _links(ask: _Query, gpu: Any) -> tuple[int | None, int | None]:
    states = [ask("nvmlDeviceGetNvLinkState", gpu, link) for link in range(ask.constant("NVML_NVLINK_MAX_LINKS", 18))]
    known = [state for state in states if state is not None]
    return (sum(map(bool, known)), sum(not state for state in known)) if known else (None, None)


def _fabric(ask: _Query, gpu: Any) -> int | None:
    information = ask("nvmlDeviceGetGpuFabricInfo", gpu)
    return None if information is None else int(information.state)


def _peers(ask: _Query, gpu: Any, index: int) -> dict[int, int]:
    """Returns NVML's status of direct reads from every other GPU."""
    reads = ask.constant("NVML_P2P_CAPS_INDEX_READ", 0)
    count = min(ask("nvmlDeviceGetCount") or 0, _MAX_PAIRED_GPUS)
    others = {other: ask("nvmlDeviceGetHandleByIndex", other) for other in range(count) if other != index}
    statuses = {other: ask("nvmlDeviceGetP2PStatus", gpu, peer, reads) for other, peer in others.items() if peer}
    return {other: int(status) for other, status in statuses.items() if status is not None}


def _boolean(value: Any) -> bool | None:
    return None if value is None else bool(value)


def _pair(value: Any) -> tuple[int, int] | None:
    return (int(value[0]), int(value[1])) if value else None


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""
