"""Processes that were started from a lab's environment, or on behalf of its state folder."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from windlass.backends.local.supervisor import proc
from windlass.backends.local.supervisor.process_cleanup import kill

_GRACE_S = 2.0
"""Seconds between SIGTERM and SIGKILL."""
_TIMEOUT_S = 10.0
_PAUSE_S = 0.02
_STATE, _STATE_ID = b"WINDLASS_STATE", b"WINDLASS_STATE_ID"


@dataclass(frozen=True, slots=True)
class LabProcess:
    """A living process of a lab. `environment`: the initial one, by name."""

    pid: int
    command: tuple[str, ...]
    environment: dict[str, str]


def lab_processes(state: Path) -> Iterator[LabProcess]:
    """Yields the living processes of a lab: all but this one, its ancestors, and shells that own a terminal."""
    excluded = proc.ancestors(os.getpid())
    marks = {_STATE: os.fsencode(state), _STATE_ID: _state_id(state)}
    for pid, seen in proc.all_stats().items():
        if pid in excluded or seen.state in "ZX" or _owns_terminal(pid):
            continue
        environment = proc.environment(pid)
        if any(value and environment.get(name) == value for name, value in marks.items()):
            yield LabProcess(pid, _command(pid), {os.fsdecode(k): os.fsdecode(v) for k, v in environment.items()})


def end_processes(state: Path) -> int:
    """Ends every process of a lab: SIGTERM, then SIGKILL. Returns the number of the processes found at first."""
    began = time.monotonic()
    first = found = [process.pid for process in lab_processes(state)]
    kill(found, signal.SIGTERM)
    while found and time.monotonic() - began < _TIMEOUT_S:
        if time.monotonic() - began > _GRACE_S:
            kill(found, signal.SIGKILL)
        time.sleep(_PAUSE_S)
        found = [process.pid for process in lab_processes(state)]
    return len(first)


def _state_id(state: Path) -> bytes:
    """Returns the mark of ranks that were started for the state folder; empty if there were none."""
    try:
        return (state / "id").read_bytes()[:64].strip()
    except OSError:
        return b""


def _owns_terminal(pid: int) -> bool:
    """Whether a process leads the session of a terminal, as interactive shells do."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
    except OSError:
        return False
    session, terminal = int(fields[3]), int(fields[4])
    return session == pid and terminal != 0


def _command(pid: int) -> tuple[str, ...]:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return ()
    return tuple(os.fsdecode(word) for word in words)
