"""Reads RDMA devices (InfiniBand, RoCE, EFA) with the addresses of their ports from sysfs."""

from __future__ import annotations

from pathlib import Path

from windlass.diagnose.host.facts import RdmaPort
from windlass.diagnose.host.readers.files import children, link_name, read_text

_EMPTY = ("", "0000:0000:0000:0000:0000:0000:0000:0000")


def read_rdma(root: Path) -> tuple[RdmaPort, ...]:
    """Returns every port of every device below `root`/sys/class/infiniband."""
    devices = children(root / "sys/class/infiniband")
    return tuple(_read_port(device, port) for device in devices for port in children(device / "ports"))


def _read_port(device: Path, port: Path) -> RdmaPort:
    return RdmaPort(
        device.name,
        int(port.name) if port.name.isdecimal() else 0,
        link_name(device / "device/driver"),
        read_text(port / "state").partition(":")[2].strip(),
        read_text(port / "phys_state").partition(":")[2].strip(),
        read_text(port / "link_layer"),
        read_text(port / "rate"),
        _read_gids(port),
    )


def _read_gids(port: Path) -> tuple[tuple[int, str, str, str], ...]:
    """Returns the addresses that are set; their table may have gaps, and no type may be readable."""
    found = []
    for path in children(port / "gids"):
        address, attributes = read_text(path), port / "gid_attrs"
        if address not in _EMPTY and path.name.isdecimal():
            kind, interface = read_text(attributes / "types" / path.name), read_text(attributes / "ndevs" / path.name)
            found.append((int(path.name), address, kind, interface))
    return tuple(sorted(found))
