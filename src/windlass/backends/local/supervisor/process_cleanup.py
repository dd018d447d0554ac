"""Kills stray processes: those of an ended supervisor, and all descendants of a process that ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable

from . import proc

_TIMEOUT_S = 10.0
"""Seconds after which a process that SIGKILL does not end (it hangs in the kernel) is ignored."""
_PAUSE_S = 0.005


def kill(pids: Iterable[int], number: int = signal.SIGKILL) -> None:
    """Sends a signal to each process; ignores those that have ended or belong to another user."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def kill_marked(marker: bytes) -> None:
    """Kills every process whose environment has the entry `marker` ("NAME=value"), repeatedly until none is left.

    The caller and its ancestors are excluded: a controller may itself have been started inside a rank.
    """
    name, _, value = marker.partition(b"=")
    excluded = proc.ancestors(os.getpid())
    until = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < until:
        pids = (int(entry) for entry in os.listdir("/proc") if entry.isdecimal())
        strays = [pid for pid in pids if pid not in excluded and proc.environment(pid).get(name) == value]
        if not strays:
            return
        kill(strays)
        time.sleep(_PAUSE_S)


def kill_descendants() -> None:
    """Kills and reaps every descendant of this process. A subreaper has none left afterwards."""
    until = time.monotonic() + _TIMEOUT_S
    while not _reap_all() and time.monotonic() < until:
        kill(proc.descendants([os.getpid()], proc.all_stats()))
        time.sleep(_PAUSE_S)


def _reap_all() -> bool:
    """Reaps ended children. Returns whether none is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False
