"""Reads limits, memory, processes and the control group of this machine from /proc and /sys."""

from __future__ import annotations

import re
from pathlib import Path

from windlass.diagnose.host.facts import Cgroup
from windlass.diagnose.host.readers.files import children, read_number, read_text

_LIMIT = re.compile(r"^(Max [a-z ]+?)\s{2,}(\S+)\s+(\S+)", re.MULTILINE)
_MEMORY = re.compile(r"^(\w+):\s+(\d+)( kB)?", re.MULTILINE)
_UNLIMITED = 1 << 62
"""The first version of control groups writes a number near 2⁶³ for no limit."""


def read_limits(root: Path) -> dict[str, tuple[int | None, int | None]]:
    """Returns the limits of this process, or of a mounted machine's first one; None is unlimited."""
    first = read_text(root / "proc/1/limits") if root != Path("/") else ""
    text = first or read_text(root / "proc/self/limits")
    return {match[1]: (_limit(match[2]), _limit(match[3])) for match in _LIMIT.finditer(text)}


def _limit(text: str) -> int | None:
    return int(text) if text.isdecimal() and int(text) < _UNLIMITED else None


def read_memory(root: Path) -> dict[str, int]:
    """Returns /proc/meminfo, in bytes where the kernel counts in kB."""
    text = read_text(root / "proc/meminfo")
    return {match[1]: int(match[2]) * (1024 if match[3] else 1) for match in _MEMORY.finditer(text)}


def read_processes(root: Path) -> frozenset[str]:
    """Returns the names of all visible processes, which the kernel cuts after 15 characters."""
    return frozenset(read_text(path / "comm") for path in children(root / "proc") if path.name.isdecimal())


def is_virtual(root: Path) -> bool:
    """Returns whether the kernel runs in a virtual machine."""
    return bool(re.search(r"^flags\s*:.*\bhypervisor\b", read_text(root / "proc/cpuinfo"), re.MULTILINE))


def find_container(root: Path) -> str:
    """Returns the kind of container this process runs in, "" outside of one."""
    if (root / "var/run/secrets/kubernetes.io").exists() or (root / "run/secrets/kubernetes.io").exists():
        return "Kubernetes"
    if (root / ".dockerenv").exists():
        return "Docker"
    if (root / "run/.containerenv").exists():
        return "Podman"
    groups = read_text(root / "proc/self/cgroup")
    return next((name for name in ("kubepods", "docker", "lxc", "slurm_container") if name in groups), "")


def read_cgroup(root: Path) -> Cgroup:
    """Returns the limits of the control group: of this process, or of the root that a container sees."""
    unified = root / "sys/fs/cgroup"
    paths = [line.partition("::")[2] for line in read_text(root / "proc/self/cgroup").splitlines() if "::" in line]
    own = unified / paths[0].lstrip("/") if paths else unified
    folder = own if (own / "memory.max").exists() else unified
    if (folder / "memory.max").exists() or (folder / "pids.max").exists():
        limits = (_limit(read_text(folder / "memory.max")), read_number(folder / "memory.current"))
        return Cgroup(*limits, _limit(read_text(folder / "pids.max")))
    return Cgroup(
        _limit(read_text(unified / "memory/memory.limit_in_bytes")),
        read_number(unified / "memory/memory.usage_in_bytes"),
        _limit(read_text(unified / "pids/pids.max")),
    )
