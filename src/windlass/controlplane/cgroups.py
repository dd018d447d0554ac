"""The cgroups that hold a node's pods: one of version 2, or one per controller of version 1."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

GONE_WITHIN = 20.0
"""Seconds until killed processes have left their cgroups."""
_ROOT = Path("/sys/fs/cgroup")
_CONTROLLERS = ("cpu", "cpuset", "hugetlb", "io", "memory", "pids")


def writable() -> bool:
    """Whether this process may create cgroups."""
    return all(os.access(root, os.W_OK) for root in _hierarchies())


def make(name: str) -> None:
    """Creates a kubelet's cgroup, with the controllers that it needs."""
    for root in _hierarchies():
        if (root / "cgroup.controllers").exists() and root == _ROOT:
            _delegate_controllers(root)
        own = root / name
        own.mkdir(exist_ok=True)
        if root.name == "cpuset":  # version 1: these files are not inherited
            for file in ("cpuset.cpus", "cpuset.mems"):
                (own / file).write_text((root / file).read_text())


def remove(prefix: str) -> None:
    """Removes the cgroups with this prefix, once their killed processes have ended. Raises RuntimeError."""
    give_up = time.monotonic() + GONE_WITHIN
    for own in _with_prefix(prefix):
        while not _remove_tree(own):
            if time.monotonic() > give_up:
                raise RuntimeError(f"{own} still has processes")
            time.sleep(0.02)


def remove_stale(prefix: str) -> None:
    """Removes the cgroups that a killed test run has left: those of wires that do not exist any more."""
    for own in _with_prefix(prefix):
        wire = own.name.removeprefix(prefix).partition("-")[0]
        if not Path(f"/sys/class/net/wl{wire}").exists():
            _remove_tree(own)


def _delegate_controllers(root: Path) -> None:
    """Delegates the root's controllers (version 2); in a container, processes must leave the root cgroup first."""
    wanted = " ".join(f"+{name}" for name in _CONTROLLERS if name in (root / "cgroup.controllers").read_text().split())
    try:
        (root / "cgroup.subtree_control").write_text(wanted)
    except OSError:
        leaf = root / "others"
        leaf.mkdir(exist_ok=True)
        for process in (root / "cgroup.procs").read_text().split():
            with suppress(OSError):  # the kernel's own, and those that have ended
                (leaf / "cgroup.procs").write_text(process)
        (root / "cgroup.subtree_control").write_text(wanted)


def _hierarchies() -> Sequence[Path]:
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    return [each for each in _ROOT.iterdir() if each.is_dir() and not each.is_symlink()]


def _with_prefix(prefix: str) -> Iterator[Path]:
    return (own for root in _hierarchies() for own in root.glob(f"{prefix}*"))


def _remove_tree(cgroup: Path) -> bool:
    """Removes a cgroup and those in it (their files belong to the kernel). Returns whether it is gone."""
    for folder in sorted((each for each in cgroup.rglob("*") if each.is_dir()), reverse=True):
        with suppress(OSError):
            folder.rmdir()
    with suppress(OSError):
        cgroup.rmdir()
    return not cgroup.exists()
