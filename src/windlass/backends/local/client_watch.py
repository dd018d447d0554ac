"""Watches the clients of jobs that must not outlive the client that submitted them.

A client is written "pid:start ticks:boot id", which identifies a process uniquely.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from windlass.backends.local.clock import SYSTEM
from windlass.backends.local.supervisor import proc


def process_identity(pid: int) -> str:
    """Returns the identity of a process; "" if there is no such process."""
    seen = proc.stat(pid)
    return f"{pid}:{seen.started}:{SYSTEM.boot_id()}" if seen else ""


def is_alive(owner: str) -> bool:
    """Tells whether exactly this process lives."""
    pid, started, boot_id = owner.split(":")
    return boot_id == SYSTEM.boot_id() and proc.is_alive(int(pid), int(started))


class ClientWatch:
    """Calls `on_end(job_id)` once for each job whose client has ended."""

    def __init__(self, on_end: Callable[[str], None]) -> None:
        self._on_end = on_end
        self._jobs: dict[str, set[str]] = {}
        self._watched: dict[str, int] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, job_id: str, owner: str) -> None:
        """Binds a job to a client. The controller itself is ignored: it could not see its own end."""
        if _pid(owner) == os.getpid() and is_alive(owner):
            return
        self._jobs.setdefault(owner, set()).add(job_id)

    def remove(self, job_id: str) -> None:
        """Removes a job that has ended."""
        for owner in [owner for owner, jobs in self._jobs.items() if job_id in jobs]:
            self._jobs[owner].discard(job_id)
            if not self._jobs[owner]:
                self._forget(owner)

    def watch(self) -> None:
        """Watches clients that are not watched yet, in the running loop."""
        self._loop = asyncio.get_running_loop()
        for owner in [owner for owner in self._jobs if owner not in self._watched]:
            try:
                descriptor = os.pidfd_open(_pid(owner))
            except OSError:
                self._handle_end(owner)
                continue
            if not is_alive(owner):  # after opening: the descriptor may belong to another process with the same pid
                os.close(descriptor)
                self._handle_end(owner)
                continue
            self._watched[owner] = descriptor
            self._loop.add_reader(descriptor, self._handle_end, owner)

    def close(self) -> None:
        """Ends all watches."""
        for owner in list(self._jobs):
            self._forget(owner)

    def _handle_end(self, owner: str) -> None:
        jobs = sorted(self._jobs.get(owner, ()))
        self._forget(owner)
        for job_id in jobs:
            self._on_end(job_id)

    def _forget(self, owner: str) -> None:
        self._jobs.pop(owner, None)
        descriptor = self._watched.pop(owner, None)
        if descriptor is not None:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(descriptor)
            os.close(descriptor)


def _pid(owner: str) -> int:
    return int(owner.partition(":")[0])
