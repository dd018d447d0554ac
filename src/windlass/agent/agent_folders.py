"""Creates an agent's folders: for the socket of its ranks, and for in-memory checkpoint replicas in shared memory.

They exist while the agent runs and outlive its ranks. The agent holds a lock on each; a folder without a lock belongs
to an agent that was killed, and the next agent removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from windlass.agent.fork_server.client import ROOT

_SHARED = "/dev/shm"  # noqa: S108 - the one folder that is always memory
_LOCK = "lock"
_LONGEST_ROOT = 60
"""The kernel takes 107 bytes for a socket's path; this many may be the path of the folder's parent."""


@contextlib.contextmanager
def create_replica_folder(root: str = _SHARED) -> Iterator[str]:
    """Path of the folder for replicas, until the end of the block; "" where there is no shared memory."""
    if not os.path.isdir(root) or not os.access(root, os.W_OK):
        yield ""
        return
    with create_folder(root, "windlass-memory-") as folder:
        yield folder


@contextlib.contextmanager
def create_socket_folder() -> Iterator[str]:
    """Path of the folder for the ranks' socket, until the end of the block.

    It is beside the packed agent where no temporary folder can be written. Raises FileNotFoundError if there is none.
    """
    root, is_packed = _root_of_sockets()
    with create_folder(root, "windlass-agent-") as folder:
        if is_packed:
            os.environ["TMPDIR"] = folder  # ranks have no other temporary folder either
        yield folder


def _root_of_sockets() -> tuple[str, bool]:
    """The parent of the folder for the ranks' socket, and whether it is that of the packed agent."""
    try:
        root = tempfile.gettempdir()
    except FileNotFoundError:
        if not os.path.isfile(ROOT):
            raise
        return os.path.dirname(ROOT), True
    return (root if len(root) <= _LONGEST_ROOT else "/tmp"), False  # noqa: S108 - the folder in it is private


@contextlib.contextmanager
def create_folder(root: str, prefix: str) -> Iterator[str]:
    """Path of a folder of this user's, which only this user may read, until the end of the block."""
    prefix = f"{prefix}{os.getuid()}-"
    remove_abandoned(root, prefix)
    made = tempfile.mkdtemp(prefix=".windlass-", dir=root)
    with open(os.path.join(made, _LOCK), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        locked = os.path.join(root, prefix + os.path.basename(made).rpartition("-")[2])
        os.rename(made, locked)  # other agents see it only once it is locked
        try:
            yield locked
        finally:
            shutil.rmtree(locked, ignore_errors=True)


def remove_abandoned(root: str, prefix: str) -> None:
    """Removes the folders of this user's agents that no longer run. Other users may have made such names too."""
    for left in Path(root).glob(prefix + "*"):
        with contextlib.suppress(OSError):
            found = left.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                _remove_unlocked(left)


def _remove_unlocked(left: Path) -> None:
    lock = os.open(left / _LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(left, ignore_errors=True)
    finally:
        os.close(lock)
