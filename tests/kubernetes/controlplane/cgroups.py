"""The cgroups that hold a node's pods: of version 2, or one a controller of version 1."""

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
    return all(os.access(root, os.W_OK) for root in _hierarchies())


def make(name: str) -> None:
    """The kubelet wants its own to be there, with what it needs of the controllers."""
    for root in _hierarchies():
        if (root / "cgroup.controllers").exists() and root == _ROOT:
            _hand_down(root)
        own = root / name
        own.mkdir(exist_ok=True)
        if root.name == "cpuset":  # of version 1, where nobody inherits them
            for file in ("cpuset.cpus", "cpuset.mems"):
                (own / file).write_text((root / file).read_text())


def remove(prefix: str) -> None:
    """All whose names begin so, as soon as the processes in them, killed just now, are gone. Raises RuntimeError."""
    give_up = time.monotonic() + GONE_WITHIN
    for own in _ours(prefix):
        while not _removed(own):
            if time.monotonic() > give_up:
                raise RuntimeError(f"{own} still has processes")
            time.sleep(0.02)


def sweep(prefix: str) -> None:
    """What was left when somebody was killed: those of wires that are not there any more."""
    for own in _ours(prefix):
        wire = own.name.removeprefix(prefix).partition("-")[0]
        if not Path(f"/sys/class/net/wl{wire}").exists():
            _removed(own)


def _hand_down(root: Path) -> None:
    """Version 2: in a container the processes must leave the root before it may share its controllers out."""
    wanted = " ".join(f"+{name}" for name in _CONTROLLERS if name in (root / "cgroup.controllers").read_text().split())
    try:
        (root / "cgroup.subtree_control").write_text(wanted)
    except OSError:
        leaf = root / "not-ours"
        leaf.mkdir(exist_ok=True)
        for process in (root / "cgroup.procs").read_text().split():
            with suppress(OSError):  # the kernel's own, and those that have ended
                (leaf / "cgroup.procs").write_text(process)
        (root / "cgroup.subtree_control").write_text(wanted)


def _hierarchies() -> Sequence[Path]:
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    return [each for each in _ROOT.iterdir() if each.is_dir() and not each.is_symlink()]


def _ours(prefix: str) -> Iterator[Path]:
    return (own for root in _hierarchies() for own in root.glob(f"{prefix}*"))


def _removed(cgroup: Path) -> bool:
    """A cgroup and those in it; never the files, which the kernel keeps."""
    for folder in sorted((each for each in cgroup.rglob("*") if each.is_dir()), reverse=True):
        with suppress(OSError):
            folder.rmdir()
    with suppress(OSError):
        cgroup.rmdir()
    return not cgroup.exists()
