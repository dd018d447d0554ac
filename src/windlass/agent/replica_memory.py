"""Creates the folder for in-memory checkpoint replicas in this node's shared memory; it exists while the agent runs.

It outlives ranks. The agent holds a lock on its folder; a folder without a lock belongs to an agent that was killed,
and the next agent removes it.
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

_SHARED = "/dev/shm"  # noqa: S108 - the one folder that is always memory
_LOCK = "lock"


@contextlib.contextmanager
def create_folder(root: str = _SHARED) -> Iterator[str]:
    """Path of the folder, which exists until the end of the block; "" where there is no shared memory."""
    if not os.path.isdir(root) or not os.access(root, os.W_OK):
        yield ""
        return
    prefix = f"windlass-memory-{os.getuid()}-"
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
