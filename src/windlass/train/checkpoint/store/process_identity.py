"""Identity of this process, for leases; and whether another process still lives."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path

from windlass.train.checkpoint.store.lease import Holder, ProcessIdentity, ProcessLife


def holder_of_process(job: str = "", generation: int = 0) -> Holder:
    """Return this process as the holder of a lease. `job`, `generation`: those of a run, which a reader may lack."""
    return Holder(job, generation, identify_process(), time.time_ns() // 1_000_000)


def identify_process() -> ProcessIdentity:
    """Return the identity of this process."""
    pid = os.getpid()
    return ProcessIdentity(socket.gethostname(), _machine(), pid, _start_time(pid) or 0)


def process_life(process: ProcessIdentity) -> ProcessLife:
    """Return whether a process lives; unknown for one of another machine or PID namespace."""
    if not process.machine or process.machine != _machine():
        return ProcessLife.UNKNOWN
    try:
        os.kill(process.pid, 0)
    except (ProcessLookupError, OverflowError):
        return ProcessLife.GONE
    except PermissionError:
        pass  # a process of another user
    started = _start_time(process.pid)
    if started is None:
        return ProcessLife.UNKNOWN
    return ProcessLife.ALIVE if started == process.started else ProcessLife.GONE


def _machine() -> str:
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"  # noqa: PTH116 - follows the link to the namespace
    return ""


def _start_time(pid: int) -> int | None:
    """Return the start of a process in ticks since boot; -1 for one that has ended; None if it is hidden."""
    try:
        raw = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = raw[raw.rindex(b")") + 2 :].split()  # the name, in parentheses, may contain spaces
    return -1 if fields[0] in (b"Z", b"X") else int(fields[19])
