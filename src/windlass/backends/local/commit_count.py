"""The number of commits so far, in a file beside the database: it shows that commits are missing from the database.

SQLite reads a write-ahead log up to the first damaged part and takes this for its end, so later commits vanish without
an error. Each commit counts itself in the database, and then in the file, which is therefore never ahead, as long as
the machine runs. After a crash of the machine it may be: the last commits may not have reached the disk.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from windlass.backends.local.clock import SYSTEM
from windlass.backends.local.paths import StatePaths
from windlass.backends.local.sealed_text import checksum_of

KEY = "commits"
"""Key of the number in the table `meta`."""


class CommitCount(NamedTuple):
    """A number of commits, and the boot during which the last was made."""

    number: int
    boot_id: str

    def is_ahead_of(self, committed: int) -> bool:
        """Whether commits are missing that this boot of the machine has made."""
        return self.number > committed and self.boot_id == SYSTEM.boot_id()


def read_count(paths: StatePaths) -> CommitCount | None:
    """Returns the content of the file; None if it is missing or damaged."""
    try:
        number, boot_id, checksum = paths.commit_count.read_text().split()
        return CommitCount(int(number), boot_id) if checksum == checksum_of(f"{number} {boot_id}") else None
    except (OSError, ValueError):
        return None


class CommitCountFile:
    """Writes the file. It has a fixed length, so that a full disk does not matter once it exists."""

    def __init__(self, paths: StatePaths) -> None:
        self._boot_id = SYSTEM.boot_id()
        self._descriptor = os.open(paths.commit_count, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def write(self, number: int) -> None:
        """Replaces the number. A write that fails leaves a lower number, which is never wrong."""
        digits = f"{number:020}"
        checksum = checksum_of(f"{digits} {self._boot_id}")
        with suppress(OSError):
            os.pwrite(self._descriptor, f"{digits} {self._boot_id} {checksum}\n".encode(), 0)

    def close(self) -> None:
        """Closes the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
