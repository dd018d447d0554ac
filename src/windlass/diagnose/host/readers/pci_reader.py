"""Reads the PCI bus from sysfs: GPUs, switches and network cards with their links, bridges, ACS and IOMMU groups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from windlass.diagnose.host.facts import PciDevice
from windlass.diagnose.host.readers.files import children, link_name, read_bytes, read_number, read_text

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_EXTENDED = 0x100
"""Offset of the first extended capability; an ordinary user may read the first 64 bytes only."""
_ACS_CAPABILITY = 0x000D
_ACS_CONTROL = 6
"""Offset of the control register within the capability."""
_MAX_CAPABILITIES = 48


def read_pci(root: Path) -> tuple[PciDevice, ...]:
    """Returns all devices below `root`/sys/bus/pci/devices by address."""
    return tuple(_read_device(path) for path in children(root / "sys/bus/pci/devices"))


def _read_device(path: Path) -> PciDevice:
    space = read_bytes(path / "config")
    return PciDevice(
        path.name,
        read_number(path / "vendor", 16) or 0,
        read_number(path / "device", 16) or 0,
        read_number(path / "class", 16) or 0,
        link_name(path / "driver"),
        read_text(path / "current_link_speed"),
        read_text(path / "max_link_speed"),
        read_text(path / "current_link_width"),
        read_text(path / "max_link_width"),
        _bridges(path),
        find_acs(space),
        len(space) > _EXTENDED,
        read_text(path / "iommu_group/type"),
    )


def _bridges(path: Path) -> tuple[str, ...]:
    """Returns the addresses of the bridges above a device: the folders that its real path lies in, nearest first."""
    try:
        real = path.resolve()
    except (OSError, RuntimeError):
        return ()
    return tuple(parent.name for parent in real.parents if _ADDRESS.fullmatch(parent.name))


def find_acs(space: bytes) -> int | None:
    """Returns the control register of the access control services in a configuration space; None without them."""
    for offset in _extended_capabilities(space):
        if int.from_bytes(space[offset : offset + 2], "little") == _ACS_CAPABILITY:
            return int.from_bytes(space[offset + _ACS_CONTROL : offset + _ACS_CONTROL + 2], "little")
    return None


def _extended_capabilities(space: bytes) -> Iterator[int]:
    """Yields the offsets of the extended capabilities; a damaged list ends at its first step back or after 48."""
    offset = _EXTENDED
    for _ in range(_MAX_CAPABILITIES):
        if offset < _EXTENDED or offset + 8 > len(space):
            return
        yield offset
        offset = int.from_bytes(space[offset + 2 : offset + 4], "little") >> 4
