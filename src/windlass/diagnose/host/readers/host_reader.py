"""Reads all facts of a machine: the files below a root folder, and the calls that have no file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from windlass.diagnose.host.facts import FileSystem, HostFacts
from windlass.diagnose.host.readers.driver_reader import (
    read_compatible_driver,
    read_driver,
    read_libraries,
    read_modules,
    read_nodes,
)
from windlass.diagnose.host.readers.files import read_text
from windlass.diagnose.host.readers.kernel_log_reader import read_kernel_log
from windlass.diagnose.host.readers.live_calls import LiveCalls
from windlass.diagnose.host.readers.network_reader import read_rdma
from windlass.diagnose.host.readers.package_reader import find_preloaded_nccl
from windlass.diagnose.host.readers.pci_reader import read_pci
from windlass.diagnose.host.readers.system_reader import (
    find_container,
    is_virtual,
    read_cgroup,
    read_limits,
    read_memory,
    read_processes,
)
from windlass.diagnose.host.readers.toolkit_reader import read_toolkit

_Fact = TypeVar("_Fact")
_SHM = "dev/shm"
_VARIABLES = ("NCCL_", "FI_", "RDMAV_")
"""Beginnings of the variables of NCCL, libfabric and rdma-core."""
READING_STEPS = 9
"""Number of steps that `read_host` reports."""


def read_host(
    root: Path = Path("/"),
    calls: LiveCalls | None = None,
    folders: Sequence[str] = ("/",),
    environment: Mapping[str, str] | None = None,
    report_step: Callable[[str], object] = str,
) -> HostFacts:
    """Returns the facts of the machine whose file systems are mounted at `root`.

    `folders`: absolute paths whose file systems are measured; `environment`: of the processes that would run here.
    `report_step` is called with the name of each step that may take long, before it begins.
    """

    def step(name: str, read: Callable[..., _Fact], *arguments: Any) -> _Fact:
        report_step(name)
        return read(*arguments)

    live = calls or LiveCalls()
    own_name = step("address of the own name", live.own_name)
    driver, is_open = step("driver", read_driver, root)
    return HostFacts(
        host=read_text(root / "etc/hostname") if root != Path("/") else own_name.name,
        kernel=read_text(root / "proc/sys/kernel/osrelease"),
        is_virtual=is_virtual(root),
        container=find_container(root),
        memory=read_memory(root),
        processes=read_processes(root),
        modules=read_modules(root),
        driver=driver,
        is_open_driver=is_open,
        libraries=read_libraries(root),
        compatible_driver=read_compatible_driver(root),
        pci=step("PCI bus", read_pci, root),
        node_errors=read_nodes(root, live.open_error),
        nvml=step("NVML", live.nvml),
        kernel_log=step("kernel log", read_kernel_log, root),
        torch=live.torch(),
        packages=step("Python packages", live.packages),
        preloaded=find_preloaded_nccl(environment or {}),
        variables={name: (environment or {})[name] for name in environment or () if name.startswith(_VARIABLES)},
        limits=read_limits(root),
        shm=live.file_system(root / _SHM, f"/{_SHM}"),
        disks=step("disks", _read_disks, root, live, folders),
        cgroup=read_cgroup(root),
        toolkit=step("container toolkit", read_toolkit, root),
        rdma=read_rdma(root),
        own_name=own_name,
        clock=step("clock", live.clock),
    )


def _read_disks(root: Path, live: LiveCalls, folders: Sequence[str]) -> tuple[FileSystem, ...]:
    found = (live.file_system(root / folder.lstrip("/"), folder) for folder in dict.fromkeys(folders))
    return tuple({disk.device or disk.path: disk for disk in reversed([*found]) if disk}.values())[::-1]
