"""Reads /proc: parents, start times and environments of processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class ProcessStat(NamedTuple):
    """Fields of /proc/<pid>/stat; `started` in clock ticks since boot, with the pid a unique identity."""

    state: str
    parent: int
    group: int
    session: int
    started: int


def stat(pid: int) -> ProcessStat | None:
    """Reads the fields of a process; None if there is no such process."""
    raw = _read(f"/proc/{pid}/stat")
    if not raw:
        return None
    # the name, in parentheses, may contain parentheses and spaces
    fields = raw[raw.rindex(b")") + 2 :].split()
    return ProcessStat(fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def is_alive(pid: int, started: int) -> bool:
    """Tells whether exactly this process lives; a zombie does not."""
    found = stat(pid)
    return found is not None and found.started == started and found.state not in "ZX"


def environment(pid: int) -> dict[bytes, bytes]:
    """Returns the initial environment of a process; empty if unreadable (another user's, or hidden by the program)."""
    entries = (entry.partition(b"=") for entry in _read(f"/proc/{pid}/environ").split(b"\0"))
    return {name: value for name, _, value in entries if name}


def all_stats() -> dict[int, ProcessStat]:
    """Returns every process."""
    found = ((int(name), stat(int(name))) for name in os.listdir("/proc") if name.isdecimal())
    return {pid: seen for pid, seen in found if seen is not None}


class ProcessScan:
    """All processes, read again when the last scan is older than `max_age` seconds: gangs stopped together share it."""

    def __init__(self, max_age: float) -> None:
        self._max_age = max_age
        self._taken = 0.0
        self._processes: dict[int, ProcessStat] = {}

    def processes(self) -> dict[int, ProcessStat]:
        """Returns every process."""
        now = time.monotonic()
        if now - self._taken > self._max_age:
            self._processes, self._taken = all_stats(), now
        return self._processes


def children(parent: int) -> list[int]:
    """Returns the children of a single-threaded process, including dead ones that wait to be reaped."""
    try:
        with open(f"/proc/{parent}/task/{parent}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return [pid for pid, seen in all_stats().items() if seen.parent == parent]


def descendants(roots: Iterable[int], stats: Mapping[int, ProcessStat]) -> list[int]:
    """Returns the descendants of `roots`, parents before children, without `roots`."""
    below: dict[int, list[int]] = {}
    for pid, seen in stats.items():
        below.setdefault(seen.parent, []).append(pid)
    found: list[int] = []
    todo = list(roots)
    while todo:
        children_of_one = below.get(todo.pop(), [])
        found.extend(children_of_one)
        todo.extend(children_of_one)
    return found


def ancestors(pid: int) -> set[int]:
    """Returns the process, its parent, and so on up to init."""
    found: set[int] = set()
    while pid > 0 and pid not in found:
        found.add(pid)
        seen = stat(pid)
        pid = seen.parent if seen else 0
    return found


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
