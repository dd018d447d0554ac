"""Lists the GPUs of this machine and their MIG instances by NVML."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

_PROFILE = re.compile(r"\bMIG ([0-9]g\.[0-9]+gb)")


class Gpu(NamedTuple):
    """A GPU, or a MIG instance, by the id that CUDA_VISIBLE_DEVICES takes."""

    id: str
    product: str
    profile: str = ""
    """Profile of a MIG instance: "1g.10gb"; else ""."""


def discover_gpus(load_nvml: Callable[[], ModuleType | None]) -> tuple[Gpu, ...]:
    """Returns the GPUs that NVML lists, without those that CUDA_VISIBLE_DEVICES hides from this process.

    Of a GPU in MIG mode, its instances are listed instead.
    """
    nvml = load_nvml()
    if nvml is None:
        return ()
    try:
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        gpus = {str(index): tuple(_parts(nvml, handle)) for index, handle in enumerate(handles)}
    except nvml.NVMLError:  # the library is there, the driver is not
        return ()
    return _visible(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))


def _parts(nvml: Any, handle: Any) -> Iterator[Gpu]:
    product = _text(nvml.nvmlDeviceGetName(handle))
    if not _is_in_mig_mode(nvml, handle):
        yield Gpu(_text(nvml.nvmlDeviceGetUUID(handle)), product)
        return
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
        except nvml.NVMLError_NotFound:  # fewer instances than possible
            continue
        if profile := _PROFILE.search(_text(nvml.nvmlDeviceGetName(part))):
            yield Gpu(_text(nvml.nvmlDeviceGetUUID(part)), product, profile[1])


def _is_in_mig_mode(nvml: Any, handle: Any) -> bool:
    try:
        current, _pending = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError_NotSupported:
        return False
    return bool(current == nvml.NVML_DEVICE_MIG_ENABLE)


def _visible(gpus: dict[str, tuple[Gpu, ...]], setting: str | None) -> tuple[Gpu, ...]:
    every = tuple(part for parts in gpus.values() for part in parts)
    if setting is None:
        return every
    by_name = gpus | {part.id: (part,) for part in every}
    named = setting.replace(" ", "").split(",")
    return tuple(part for name in named for part in by_name.get(name, ()))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def load_nvml() -> ModuleType | None:
    """Returns NVML's module; None without its library."""
    import ctypes  # noqa: PLC0415 - ctypes is needed on machines with a driver only

    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    import pynvml  # noqa: PLC0415 - see above

    return pynvml  # type: ignore[no-any-return]  # ships no types
