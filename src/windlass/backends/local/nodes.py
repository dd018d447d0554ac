"""The nodes of this machine: found, declared on the command line, or written in a cluster file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from windlass.backends.local import gpus as hardware
from windlass.backends.local.gpus import Gpu
from windlass.backends.port import ClusterChanged
from windlass.core.model.node import Node, Topology
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.reservation import Reservation
from windlass.core.model.resources import CPU, GPU, GPU_TYPE, MEMORY

DEVICE_LABEL = "windlass.dev/device"
"""What a node's gpus are: "gpu", or "slot" for a share of the CPU that stands in for one."""
PRODUCT_LABEL = "windlass.dev/gpu"
MIG = "mig-"
"""A resource of this prefix and a profile's name is an instance of that profile."""


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """What the world may hand out. Nodes absent from `devices` have slots: their ranks see no GPU."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...] = ()
    topology: Topology = field(default_factory=Topology)
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Node → the ids of its real GPUs."""
    instances: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """Node → resource of a MIG profile → the ids of its real instances."""
    policy: Policy = field(default_factory=Policy)
    reservations: tuple[Reservation, ...] = ()
    """Those of the cluster file; the world knows those that people made."""
    text: str = ""
    """One line for people: what was found or declared."""

    def changed(self, reserved: tuple[Reservation, ...] = ()) -> ClusterChanged:
        """As the controller wants it, with what people have `reserved`."""
        return ClusterChanged(self.nodes, self.queues, self.topology, self.policy, (*self.reservations, *reserved))


class Machine(NamedTuple):
    """What this process may use: CPU in milli-cores, memory in bytes, and the GPUs."""

    cpu: int
    memory: int
    gpus: tuple[Gpu, ...] = ()
    """Whole ones, and MIG instances."""


def machine(*, load_nvml: Callable[[], ModuleType | None] | None = None) -> Machine:
    """Look at this machine. Without a GPU driver, or with one that does not answer, there are no GPUs."""
    return Machine(usable_cpu(), usable_memory(), hardware.found_gpus(load_nvml or hardware.load_nvml))


def found(here: Machine, queues: Sequence[Queue] = ()) -> LocalCluster:
    """One node: its real GPUs and MIG instances, or a slot for each usable core."""
    whole = tuple(gpu for gpu in here.gpus if not gpu.profile)
    parts = _by_profile(here.gpus)
    count = len(whole) if here.gpus else max(1, here.cpu // 1000)
    plain = declared(here._replace(gpus=whole), 1, count, queues)
    capacity = {**plain.nodes[0].capacity, **{name: len(ids) for name, ids in parts.items()}}
    node = replace(plain.nodes[0], capacity=capacity, labels=_labels(here.gpus))
    return replace(plain, nodes=(node,), instances={node.name: parts} if parts else {}, text=_told(here.gpus, count))


def declared(here: Machine, count: int, gpus: int, queues: Sequence[Queue] = ()) -> LocalCluster:
    """`count` nodes n1, n2, … with `gpus` each, and an equal share of the machine's CPU and memory.

    The gpus are real if the machine has as many in all, else slots.
    """
    capacity = {CPU: here.cpu // count, MEMORY: here.memory // count, GPU: gpus}
    parts = _dealt(here, {f"n{number}": gpus for number in range(1, count + 1)})
    nodes = tuple(Node(name, capacity, _labels(part)) for name, part in parts.items())
    real = any(parts.values())
    each = f"{gpus} real GPU{'s' * (gpus != 1)}" if real else _slots(gpus)
    text = f"{count} node{'s' * (count != 1)} with {each}{' each' * (count != 1)}"
    return LocalCluster(nodes, tuple(queues), devices=_ids(parts), text=text)


def from_nodes(
    here: Machine, nodes: Sequence[Node], queues: Sequence[Queue], topology: Topology, source: str
) -> LocalCluster:
    """Nodes as a cluster file has them; their gpus are real if the machine has as many in all, else slots.

    `source` names the file. GPUs that are shared in MIG profiles are slots: only an administrator can cut real ones.
    """
    parts = _dealt(here, {node.name: node.capacity.get(GPU, 0) for node in nodes if node.sharing != "mig"})
    labelled = tuple(replace(node, labels={**_labels(parts.get(node.name, ())), **node.labels}) for node in nodes)
    gpus = "real GPUs" if any(parts.values()) else "slots for gpus"
    count = f"{len(nodes)} node{'s' * (len(nodes) != 1)}"
    return LocalCluster(
        labelled, tuple(queues), topology, devices=_ids(parts), text=f"{count} from {source}, with {gpus}"
    )


def _dealt(here: Machine, wanted: Mapping[str, int]) -> dict[str, tuple[Gpu, ...]]:
    """Node → its real GPUs: as many as it wants, if there are enough for all of them."""
    whole = [gpu for gpu in here.gpus if not gpu.profile]
    real = len(whole) >= sum(wanted.values())
    left = iter(whole)
    return {name: tuple(islice(left, count)) if real else () for name, count in wanted.items()}


def _ids(parts: Mapping[str, Sequence[Gpu]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(gpu.id for gpu in part) for name, part in parts.items() if part}


def _by_profile(gpus: Sequence[Gpu]) -> dict[str, tuple[str, ...]]:
    names = sorted({gpu.profile for gpu in gpus if gpu.profile})
    return {f"{MIG}{name}": tuple(gpu.id for gpu in gpus if gpu.profile == name) for name in names}


def _labels(gpus: Sequence[Gpu]) -> dict[str, str]:
    if not gpus:
        return {DEVICE_LABEL: "slot"}
    product = gpus[0].product.replace(" ", "-")
    return {DEVICE_LABEL: "gpu", PRODUCT_LABEL: product, GPU_TYPE: product.removeprefix("NVIDIA-")}


def _told(gpus: Sequence[Gpu], count: int) -> str:
    if not gpus:
        return f"no GPU found: 1 node with {_slots(count)}, one a core"
    products = " + ".join(dict.fromkeys(gpu.product for gpu in gpus if not gpu.profile))
    kinds = Counter(f"MIG {gpu.profile}" if gpu.profile else products for gpu in gpus)
    return f"1 node with {', '.join(f'{number}× {kind}' for kind, number in kinds.items())}"


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
