"""System calls that have no file to read: tests replace them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from windlass.diagnose.host.facts import UNASKED, ClockState, FileSystem, NvmlReading, OwnName, TorchPackage
from windlass.diagnose.host.readers.nvml_reader import read_nvml
from windlass.diagnose.host.readers.package_reader import read_packages, read_torch

_RESOLVE_TIMEOUT_S = 3.0
_UNSYNCHRONIZED = 0x40
"""STA_UNSYNC of adjtimex."""
_TIME_ERROR = 5


def read_file_system(path: Path, shown: str) -> FileSystem | None:
    """Returns the capacity of the file system that `path` is on; None if the path does not exist."""
    try:
        found, device = os.statvfs(path), path.stat().st_dev
    except OSError:
        return None
    unit = found.f_frsize
    is_read_only = bool(found.f_flag & os.ST_RDONLY)
    return FileSystem(
        shown, found.f_blocks * unit, found.f_bavail * unit, found.f_files, found.f_favail, is_read_only, device
    )


def open_error(path: Path) -> str:
    """Returns the symbol of the error of opening a device node for reading and writing, "" if it opens."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "error")
    return ""


def resolve_own_name() -> OwnName:
    """Returns the addresses that the own name resolves to. A resolver without an answer is left after 3 seconds."""
    name = socket.gethostname()
    answers: list[OwnName] = []
    asking = threading.Thread(target=lambda: answers.append(_resolve(name)), name="resolver", daemon=True)
    asking.start()
    asking.join(_RESOLVE_TIMEOUT_S)
    return answers[0] if answers else OwnName(name, (), _own_addresses(), "no answer within 3 seconds")


def _resolve(name: str) -> OwnName:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return OwnName(name, (), _own_addresses(), error.strerror or str(error))
    addresses = tuple(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))
    return OwnName(name, addresses, _own_addresses())


def _own_addresses() -> tuple[str, ...]:
    """Returns the addresses by which other machines would be reached: no packet is sent."""
    found = []
    for family, target in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))
            found.append(str(probe.getsockname()[0]))
    return tuple(found)


class _Timex(ctypes.Structure):
    """The head of the kernel's struct timex; the rest is not read."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def read_clock() -> ClockState:
    """Returns whether the kernel's clock is kept by a time service, by a call that changes nothing."""
    state = _Timex()
    try:
        outcome = ctypes.CDLL(None).adjtimex(ctypes.byref(state))
    except (OSError, AttributeError):
        return ClockState()
    if outcome < 0:
        return ClockState()
    is_kept = outcome != _TIME_ERROR and not state.status & _UNSYNCHRONIZED
    return ClockState(is_kept, state.maxerror)


@dataclass(frozen=True, slots=True)
class LiveCalls:
    """The calls behind facts that are not in files."""

    nvml: Callable[[], NvmlReading] = read_nvml
    torch: Callable[[], TorchPackage | None] = read_torch
    packages: Callable[[], Mapping[str, str]] = read_packages
    file_system: Callable[[Path, str], FileSystem | None] = read_file_system
    own_name: Callable[[], OwnName] = resolve_own_name
    clock: Callable[[], ClockState] = read_clock
    open_error: Callable[[Path], str] = open_error


MOUNTED = LiveCalls(nvml=lambda: NvmlReading(UNASKED), own_name=lambda: OwnName(""), open_error=lambda _path: UNASKED)
"""Calls for a machine whose file systems are mounted: this container's devices and its name are not that machine's."""
