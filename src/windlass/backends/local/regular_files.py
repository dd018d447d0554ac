"""Opens files in folders that the processes of a job can write: no link, pipe or device takes the place of one."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def open_regular(path: Path) -> int:
    """Returns a descriptor for reading, without waiting for a writer. Raises OSError for what is no regular file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file; remove it from the folder of logs", str(path))
    return descriptor
