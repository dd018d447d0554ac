"""Processes that ranks left behind: descendants that were reparented to the supervisor, a subreaper.

Such a process is identified by WINDLASS_GANG in its environment, else by its session; else it has no known gang and
ends with the first gang that ends and is older.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Container
from typing import TypeAlias

from . import proc

Key: TypeAlias = tuple[str, int]
"""Job id and generation."""


class Orphans:
    """The children of the supervisor that are no ranks. `gangs`: those that exist; `sessions`: of their ranks."""

    def __init__(self, gangs: Container[Key]) -> None:
        self._gangs = gangs
        self.sessions: dict[int, Key] = {}
        self._keys: dict[int, Key | None] = {}

    def forget(self, pid: int) -> None:
        """Forgets a process that has ended."""
        self._keys.pop(pid, None)

    def find(self, key: Key, first_started: int, ranks: Collection[int]) -> list[int]:
        """Returns those of a gang, and those of no known gang that are younger than it.

        `first_started`: the start of the gang's oldest rank in clock ticks, 0 if none started; `ranks`: pids of all
        ranks.
        """
        for pid in proc.children(os.getpid()):
            if pid not in ranks and pid not in self._keys:
                self._keys[pid] = self._gang_of(pid)
        return [
            pid
            for pid, owner in self._keys.items()
            if owner == key or (owner is None and _is_younger(pid, first_started))
        ]

    def _gang_of(self, pid: int) -> Key | None:
        job_id, _, generation = os.fsdecode(proc.environment(pid).get(b"WINDLASS_GANG", b"")).rpartition("/")
        key = (job_id, int(generation) if generation.isdecimal() else 0)
        if key in self._gangs:
            return key
        seen = proc.stat(pid)
        return self.sessions.get(seen.session) if seen else None


def _is_younger(pid: int, first_started: int) -> bool:
    seen = proc.stat(pid)
    return seen is not None and bool(first_started) and seen.started >= first_started
