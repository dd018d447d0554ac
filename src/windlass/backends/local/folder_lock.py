"""The lock of a state folder: at most one controller, whose identity others can read."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from windlass.backends.local.paths import StatePaths
from windlass.backends.local.supervisor import proc
from windlass.backends.port import BackendError

Kind: TypeAlias = Literal["up", "run"]


class LockHolder(NamedTuple):
    """The process that holds the lock. `started` in clock ticks since boot."""

    pid: int
    started: int
    kind: str


class HeldError(BackendError):
    """Another process controls this state folder; `holder` is None if it has not written its identity yet."""

    def __init__(self, paths: StatePaths, holder: LockHolder | None) -> None:
        self.holder = holder
        subject = f"`windlass {holder.kind}` (pid {holder.pid})" if holder else "another windlass"
        super().__init__(f"{subject} already controls {paths.root}; end it with: windlass down")


@dataclass(slots=True)
class FolderLock:
    """A held lock. It ends with the process in any case, or with `release`."""

    descriptor: int

    def release(self) -> None:
        """Releases the lock, also in a child that was forked and has not closed the inherited descriptor yet."""
        if self.descriptor >= 0:
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            os.close(self.descriptor)
            self.descriptor = -1


def acquire_lock(paths: StatePaths, kind: Kind) -> FolderLock:
    """Takes the lock without waiting. Raises HeldError, and BackendError if the folder cannot be written."""
    try:
        descriptor = os.open(paths.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BackendError(f"{paths.lock}: {error.strerror}; name another state folder in WINDLASS_STATE") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise HeldError(paths, read_holder(paths)) from None
    _write_holder(descriptor, kind)
    return FolderLock(descriptor)


def read_holder(paths: StatePaths) -> LockHolder | None:
    """Returns the process that holds the lock, or None."""
    try:
        content = json.loads(paths.lock.read_bytes())
        found = LockHolder(content["pid"], content["started"], content["kind"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if proc.is_alive(found.pid, found.started) else None


def _write_holder(descriptor: int, kind: Kind) -> None:
    own = proc.stat(os.getpid())
    content = {"pid": os.getpid(), "started": own.started if own else 0, "kind": kind}
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(content).encode(), 0)
    except OSError:  # full disk: the lock holds all the same, only its holder cannot be read
        return
