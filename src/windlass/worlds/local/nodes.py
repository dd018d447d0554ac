"""The nodes of this machine: found, declared on the command line, or written in a cluster file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from windlass.core.cluster import Node, Topology
from windlass.core.queue import Queue
from windlass.core.resources import CPU, GPU, MEMORY
from windlass.worlds.port import ClusterChanged

DEVICE_LABEL = "windlass.dev/device"
"""What a node's gpus are: "gpu", or "slot" for a share of the CPU that stands in for one."""
PRODUCT_LABEL = "windlass.dev/gpu"


class Gpu(NamedTuple):
    """A real GPU, by the id that CUDA_VISIBLE_DEVICES takes."""

    id: str
    product: str


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """What the world may hand out. Nodes absent from `devices` have slots: their ranks see no GPU."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...] = ()
    topology: Topology = field(default_factory=Topology)
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Node → the ids of its real GPUs."""
    text: str = ""
    """One line for people: what was found or declared."""

    def changed(self) -> ClusterChanged:
        """As the controller wants it."""
        return ClusterChanged(self.nodes, self.queues, self.topology)


class Machine(NamedTuple):
    """What this process may use: CPU in milli-cores, memory in bytes, and the GPUs."""

    cpu: int
    memory: int
    gpus: tuple[Gpu, ...] = ()


def machine(*, load_nvml: Callable[[], ModuleType | None] | None = None) -> Machine:
    """Look at this machine. Without a GPU driver, or with one that does not answer, there are no GPUs."""
    return Machine(usable_cpu(), usable_memory(), found_gpus(load_nvml or _load_nvml))


def found(here: Machine, queues: Sequence[Queue] = ()) -> LocalCluster:
    """One node: its real GPUs, or a slot for each usable core."""
    count = len(here.gpus) or max(1, here.cpu // 1000)
    cluster = declared(here, 1, count, queues)
    products = " + ".join(dict.fromkeys(gpu.product for gpu in here.gpus))
    text = f"1 node with {count}× {products}" if here.gpus else f"no GPU found: 1 node with {_slots(count)}, one a core"
    return LocalCluster(cluster.nodes, cluster.queues, devices=cluster.devices, text=text)


def declared(here: Machine, count: int, gpus: int, queues: Sequence[Queue] = ()) -> LocalCluster:
    """`count` nodes n1, n2, … with `gpus` each, and an equal share of the machine's CPU and memory.

    The gpus are real if the machine has as many in all, else slots.
    """
    real = bool(gpus) and len(here.gpus) >= count * gpus
    names = [f"n{number}" for number in range(1, count + 1)]
    capacity = {CPU: here.cpu // count, MEMORY: here.memory // count, GPU: gpus}
    parts = {name: here.gpus[row * gpus : (row + 1) * gpus] if real else () for row, name in enumerate(names)}
    nodes = tuple(Node(name, capacity, _labels(part)) for name, part in parts.items())
    devices = {name: tuple(gpu.id for gpu in part) for name, part in parts.items() if part}
    each = f"{gpus} real GPU{'s' * (gpus != 1)}" if real else _slots(gpus)
    text = f"{count} node{'s' * (count != 1)} with {each}{' each' * (count != 1)}"
    return LocalCluster(nodes, tuple(queues), devices=devices, text=text)


def from_nodes(nodes: Sequence[Node], queues: Sequence[Queue], topology: Topology, source: str) -> LocalCluster:
    """Nodes as a cluster file has them; their gpus are slots. `source` names the file."""
    labelled = tuple(
        Node(n.name, n.capacity, {DEVICE_LABEL: "slot", **n.labels}, n.taints, n.place, n.cordoned, n.ready)
        for n in nodes
    )
    return LocalCluster(
        labelled, tuple(queues), topology, text=f"{len(nodes)} nodes from {source}, with slots for gpus"
    )


def _labels(gpus: Sequence[Gpu]) -> dict[str, str]:
    if not gpus:
        return {DEVICE_LABEL: "slot"}
    return {DEVICE_LABEL: "gpu", PRODUCT_LABEL: gpus[0].product.replace(" ", "-")}


def _slots(count: int) -> str:
    return f"{count} CPU slot{'s' * (count != 1)}"


# --- what there is ----------------------------------------------------------------------------------------


def usable_cpu(cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Milli-cores: the cores this process may run on, or its control group's quota if that is less."""
    cores = len(os.sched_getaffinity(0)) * 1000
    quota = _quota(cgroups)
    return cores if quota is None else max(1, min(cores, quota))


def usable_memory(cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes: the machine's memory, or the control group's limit if that is less."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _number(cgroups / "memory.max") or _number(cgroups / "memory" / "memory.limit_in_bytes")
    return min(whole, limit) if limit else whole


def _quota(cgroups: Path) -> int | None:
    """Version 2 says "quota period" in one file, version 1 in two; no quota is "max" or -1."""
    words = _words(cgroups / "cpu.max") or [
        *_words(cgroups / "cpu" / "cpu.cfs_quota_us"),
        *_words(cgroups / "cpu" / "cpu.cfs_period_us"),
    ]
    if len(words) != 2 or not all(word.isdecimal() and int(word) for word in words):
        return None
    return int(words[0]) * 1000 // int(words[1])


def _number(path: Path) -> int | None:
    words = _words(path)
    return int(words[0]) if words and words[0].isdecimal() else None


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def found_gpus(load_nvml: Callable[[], ModuleType | None]) -> tuple[Gpu, ...]:
    """The GPUs that NVML lists, less those that CUDA_VISIBLE_DEVICES hides from this process."""
    nvml = load_nvml()
    if nvml is None:
        return ()
    try:
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        gpus = tuple(Gpu(_text(nvml.nvmlDeviceGetUUID(h)), _text(nvml.nvmlDeviceGetName(h))) for h in handles)
    except nvml.NVMLError:  # a library without its driver
        return ()
    return _visible(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))


def _visible(gpus: tuple[Gpu, ...], setting: str | None) -> tuple[Gpu, ...]:
    if setting is None:
        return gpus
    by_name = {str(index): gpu for index, gpu in enumerate(gpus)} | {gpu.id: gpu for gpu in gpus}
    return tuple(by_name[name] for name in setting.replace(" ", "").split(",") if name in by_name)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _load_nvml() -> ModuleType | None:
    import ctypes  # noqa: PLC0415 - only machines with a driver pay for what follows

    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    import pynvml  # noqa: PLC0415 - see above

    return pynvml  # type: ignore[no-any-return]  # ships no types
