"""A folder in this node's memory for ranks' copies of their states: it outlives them, and ends with the agent.

An agent holds a lock on its folder. Where nobody holds it, its agent was killed, and the next one removes what it left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_SHARED = "/dev/shm"  # noqa: S108 - the one folder that is always memory
_LOCK = "lock"


@contextlib.contextmanager
def create_folder(root: str = _SHARED) -> Iterator[str]:
    """Its path, until the end of the block; "" where no memory can be shared."""
    if not os.path.isdir(root) or not os.access(root, os.W_OK):
        yield ""
        return
    prefix = f"windlass-memory-{os.getuid()}-"
    remove_abandoned(root, prefix)
    made = tempfile.mkdtemp(prefix=".windlass-", dir=root)
    with open(os.path.join(made, _LOCK), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        locked = os.path.join(root, prefix + os.path.basename(made).rpartition("-")[2])
        os.rename(made, locked)  # nobody else looks at it before it is locked
        try:
            yield locked
        finally:
            shutil.rmtree(locked, ignore_errors=True)


def remove_abandoned(root: str, prefix: str) -> None:
    """Remove folders whose agent is gone."""
    for left in Path(root).glob(prefix + "*"):
        with contextlib.suppress(OSError), open(left / _LOCK, encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
