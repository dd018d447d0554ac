"""The nodes of this machine: discovered, declared on the command line, or read from a cluster file."""

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
"""Label for the kind of a node's gpus: "gpu", or "slot" for a share of the CPU in place of a GPU."""
PRODUCT_LABEL = "windlass.dev/gpu"
MIG = "mig-"
"""Prefix of resources that are MIG instances; the profile's name follows."""


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """The nodes that this backend may assign. Nodes absent from `devices` have slots: their ranks see no GPU."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...] = ()
    topology: Topology = field(default_factory=Topology)
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Node → ids of its real GPUs."""
    instances: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """Node → resource of a MIG profile → ids of its real instances."""
    policy: Policy = field(default_factory=Policy)
    reservations: tuple[Reservation, ...] = ()
    """Reservations of the cluster file; those that people make at run time are in the backend."""
    text: str = ""
    """One line for people: the nodes that were found or declared."""

    def changed(self, reserved: tuple[Reservation, ...] = ()) -> ClusterChanged:
        """Returns the cluster as an event for the controller, with the reservations made at run time."""
        return ClusterChanged(self.nodes, self.queues, self.topology, self.policy, (*self.reservations, *reserved))


class Machine(NamedTuple):
    """The resources of this process: CPU in milli-cores, memory in bytes, and the GPUs."""

    cpu: int
    memory: int
    gpus: tuple[Gpu, ...] = ()
    """Whole GPUs, and MIG instances."""


def inspect_machine(*, load_nvml: Callable[[], ModuleType | None] | None = None) -> Machine:
    """Inspects this machine. Without a GPU driver, or with one that does not answer, there are no GPUs."""
    return Machine(usable_cpu(), usable_memory(), hardware.discover_gpus(load_nvml or hardware.load_nvml))


def discover_cluster(here: Machine, queues: Sequence[Queue] = ()) -> LocalCluster:
    """Returns one node: its real GPUs and MIG instances, or a slot for each usable core."""
    whole = tuple(gpu for gpu in here.gpus if not gpu.profile)
    parts = _by_profile(here.gpus)
    count = len(whole) if here.gpus else max(1, here.cpu // 1000)
    plain = declare_cluster(here._replace(gpus=whole), 1, count, queues)
    capacity = {**plain.nodes[0].capacity, **{name: len(ids) for name, ids in parts.items()}}
    node = replace(plain.nodes[0], capacity=capacity, labels=_labels(here.gpus))
    return replace(
        plain, nodes=(node,), instances={node.name: parts} if parts else {}, text=_describe(here.gpus, count)
    )


def declare_cluster(here: Machine, count: int, gpus: int, queues: Sequence[Queue] = ()) -> LocalCluster:
    """Returns `count` nodes n1, n2, … with `gpus` each, and an equal share of the machine's CPU and memory.

    The gpus are real if the machine has that many in total, else slots.
    """
    capacity = {CPU: here.cpu // count, MEMORY: here.memory // count, GPU: gpus}
    parts = _real_gpus(here, {f"n{number}": gpus for number in range(1, count + 1)})
    nodes = tuple(Node(name, capacity, _labels(part)) for name, part in parts.items())
    real = any(parts.values())
    each = f"{gpus} real GPU{'s' * (gpus != 1)}" if real else _slots(gpus)
    text = f"{count} node{'s' * (count != 1)} with {each}{' each' * (count != 1)}"
    return LocalCluster(nodes, tuple(queues), devices=_ids(parts), text=text)


def cluster_from_nodes(
    here: Machine, nodes: Sequence[Node], queues: Sequence[Queue], topology: Topology, source: str
) -> LocalCluster:
    """Returns the nodes of a cluster file; their gpus are real if the machine has that many in total, else slots.

    `source` names the file. GPUs shared by MIG profiles are slots: only an administrator can create real instances.
    """
    parts = _real_gpus(here, {node.name: node.capacity.get(GPU, 0) for node in nodes if node.sharing != "mig"})
    labelled = tuple(replace(node, labels={**_labels(parts.get(node.name, ())), **node.labels}) for node in nodes)
    gpus = "real GPUs" if any(parts.values()) else "slots for gpus"
    count = f"{len(nodes)} node{'s' * (len(nodes) != 1)}"
    return LocalCluster(
        labelled, tuple(queues), topology, devices=_ids(parts), text=f"{count} from {source}, with {gpus}"
    )


def _real_gpus(here: Machine, wanted: Mapping[str, int]) -> dict[str, tuple[Gpu, ...]]:
    """Returns node → its real GPUs: the requested number, if there are enough for all nodes."""
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


def _describe(gpus: Sequence[Gpu], count: int) -> str:
    if not gpus:
        return f"no GPU found: 1 node with {_slots(count)}, one a core"
    products = " + ".join(dict.fromkeys(gpu.product for gpu in gpus if not gpu.profile))
    kinds = Counter(f"MIG {gpu.profile}" if gpu.profile else products for gpu in gpus)
    return f"1 node with {', '.join(f'{number}× {kind}' for kind, number in kinds.items())}"


def _slots(count: int) -> str:
    return f"{count} CPU slot{'s' * (count != 1)}"


# --- this machine ------------------------------------------------------------------------------------------


def usable_cpu(cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Returns milli-cores: the cores that this process may run on, or its control group's quota if that is less."""
    cores = len(os.sched_getaffinity(0)) * 1000
    quota = _quota(cgroups)
    return cores if quota is None else max(1, min(cores, quota))


def usable_memory(cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Returns bytes: the machine's memory, or the control group's limit if that is less."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _number(cgroups / "memory.max") or _number(cgroups / "memory" / "memory.limit_in_bytes")
    return min(whole, limit) if limit else whole


def _quota(cgroups: Path) -> int | None:
    """Reads the quota. Version 2 has "quota period" in one file, version 1 two files; no quota is "max" or -1."""
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
