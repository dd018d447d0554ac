"""Processes of a state folder that a test may not leave behind."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from windlass import wire
from windlass.backends.local.supervisor import proc

TIMEOUT_S = 20.0
"""Timeout in seconds of every wait in tests; even a loaded machine is not that slow."""


def living_processes(state: Path) -> dict[int, str]:
    """Returns the living processes of a folder: ranks by their mark, watchdog and supervisor by their command."""
    file = state / "id"
    marker = file.read_bytes().strip() if file.exists() else b""
    return {pid: line for pid, line in _commands() if _belongs(pid, line, state, marker)}


def _commands() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if line:  # a zombie has none
                yield int(entry.name), line.replace(b"\0", b" ").decode(errors="replace")


def _belongs(pid: int, line: str, state: Path, marker: bytes) -> bool:
    marked = bool(marker) and proc.environment(pid).get(wire.STATE_ID.encode()) == marker
    return marked or ("supervisor/start.py" in line and f" {state} " in line)


def assert_none_left(states: list[Path]) -> None:
    """Waits until all processes have ended; kills and reports those that do not end."""
    until = time.monotonic() + TIMEOUT_S
    while (
        left := {pid: line for state in states for pid, line in living_processes(state).items()}
    ) and time.monotonic() < until:
        time.sleep(0.05)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left, f"processes left behind: {left}"
