"""Ends processes that ranks have left behind outside their process groups, as services and daemons do.

They become children of the fork server, which is a subreaper, and would hold GPUs and ports that the next ranks need.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

_POLL_S = 0.005
_PROCESSES = Path("/proc")


def kill_orphans(known: Collection[int], timeout_s: float) -> None:
    """Kills and reaps all children of this process but the known ones, and then theirs; gives up after `timeout_s`."""
    until = time.monotonic() + timeout_s
    while (pids := _children().difference(known)) and time.monotonic() < until:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
        time.sleep(_POLL_S)


def _children() -> set[int]:
    """Process ids of the children of this process, ended ones included; empty on systems without /proc."""
    parent, found = str(os.getpid()).encode(), set()
    for entry in _PROCESSES.iterdir() if _PROCESSES.is_dir() else ():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                status = (entry / "stat").read_bytes()
                if status[status.rindex(b")") + 2 :].split()[1] == parent:  # the name may contain spaces
                    found.add(int(entry.name))
    return found
