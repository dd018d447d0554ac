"""Reads the lines of the kernel log that concern GPUs, memory errors and the OOM killer."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from windlass.diagnose.host.facts import KernelLog

_FILES = ("dev/kmsg", "var/log/kern.log", "var/log/dmesg", "var/log/messages", "var/log/syslog")
_RELEVANT = re.compile(r"NVRM|NVSwitch|nvidia-|nouveau|amdgpu|libnccl|Out of memory: Kill|oom-kill|Hardware Error|AER:")
_KMSG = re.compile(r"^\d+,\d+,(\d+),[^;]*;")
"""Prefix of a record of /dev/kmsg: priority and number, then microseconds since the start of the kernel."""
_MAX_RECORDS, _MAX_LINES, _TAIL_BYTES = 100_000, 2_000, 8 << 20


def read_kernel_log(root: Path) -> KernelLog:
    """Returns the relevant lines of the first log that can be read and is not empty, the newest 2,000 of them."""
    for name in _FILES:
        with contextlib.suppress(OSError):
            records = list(_read_records(root / name))
            if records:
                lines = [_plain(line) for line in records if _RELEVANT.search(line)]
                return KernelLog(f"/{name}", tuple(lines[-_MAX_LINES:]))
    return KernelLog()


def _read_records(path: Path) -> Iterator[str]:
    """Yields lines. /dev/kmsg gives one record a read and then blocks, so it is read without blocking."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if path.is_file():
            os.lseek(descriptor, max(0, path.stat().st_size - _TAIL_BYTES), os.SEEK_SET)
        for _ in range(_MAX_RECORDS):
            try:
                data = os.read(descriptor, 1 << 16)
            except BlockingIOError:
                return
            except BrokenPipeError:  # the kernel overwrote the next record; the following read goes on behind it
                continue
            if not data:
                return
            yield from data.decode("utf-8", "replace").splitlines()
    finally:
        os.close(descriptor)


def _plain(line: str) -> str:
    """Returns a line with the time as dmesg prints it."""
    found = _KMSG.match(line)
    return f"[{int(found[1]) / 1e6:12.6f}] {line[found.end() :]}" if found else line
