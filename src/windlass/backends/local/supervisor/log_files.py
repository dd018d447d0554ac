"""Stores the output of ranks: one file per stream, in parts of equal size, with an index from time to offset.

`<rank>.out` is the part being written; a full part is renamed to `<rank>.out.1`, the next to `.2` and so on, and the
oldest is removed. Every full part has exactly the same size, so part k begins at (k - 1) × that size of the whole
stream. Beside each part is an index `….idx` of pairs (time in ms, offset in the part), 64-bit little-endian.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

INDEX_ENTRY = struct.Struct("<QQ")
INDEX_EVERY = 20
"""Milliseconds of output that share one index entry."""
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class LogLimits(NamedTuple):
    """Kept amount of one stream: `parts` parts of `part_bytes` each."""

    part_bytes: int = 64 << 20
    parts: int = 4


class LogWriter:
    """One stream on disk. Created on the first write; data that cannot be written is dropped and counted."""

    def __init__(self, path: str, limits: LogLimits, now: Callable[[], int]) -> None:
        self.path = path
        self.trouble = ""
        """The error for which output is being lost; "" for none."""
        self.lost = 0
        """Bytes lost since the last successful write."""
        self._limits = limits
        self._now = now
        self._file = self._index = -1
        self._position = 0
        self._full_parts = 0
        self._indexed_at = 0

    def write(self, data: bytes) -> None:
        """Writes `data`, or counts it as lost."""
        pending = self._loss_notice() + data if self.lost else data
        done = 0
        try:
            if self._file < 0:
                self._open()
            while done < len(pending):
                done += self._write_some(pending[done:] if done else pending)
        except OSError as error:
            self.trouble = os.strerror(error.errno or 0)
            self.lost += min(len(pending) - done, len(data))
            self.close()
        else:
            self.trouble, self.lost = "", 0

    def close(self) -> None:
        """Closes the files; a later write opens them again."""
        for descriptor in (self._file, self._index):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._index = -1

    def _loss_notice(self) -> bytes:
        return f"\n[windlass: {self.lost} bytes of output were lost here: {self.trouble}]\n".encode()

    def _write_some(self, data: bytes) -> int:
        room = self._limits.part_bytes - self._position
        if room <= 0:
            self._rotate()
            room = self._limits.part_bytes
        self._note_time()
        written = os.write(self._file, data[:room] if len(data) > room else data)
        self._position += written
        return written

    def _note_time(self) -> None:
        now = self._now()
        if now - self._indexed_at >= INDEX_EVERY or self._position == 0:
            self._indexed_at = now
            if os.write(self._index, INDEX_ENTRY.pack(now, self._position)) < INDEX_ENTRY.size:
                raise OSError(errno.ENOSPC, "half an index entry")

    def _open(self) -> None:
        try:
            self._file = os.open(self.path, _APPEND, 0o600)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            self._file = os.open(self.path, _APPEND, 0o600)
        self._index = os.open(self.path + ".idx", _APPEND, 0o600)
        os.ftruncate(self._index, os.fstat(self._index).st_size // INDEX_ENTRY.size * INDEX_ENTRY.size)
        self._position = os.fstat(self._file).st_size
        if self._position:
            self._full_parts = highest_part(self.path)

    def _rotate(self) -> None:
        self.close()
        self._full_parts += 1
        full = f"{self.path}.{self._full_parts}"
        os.rename(self.path, full)
        os.rename(self.path + ".idx", full + ".idx")
        oldest = self._full_parts - self._limits.parts + 1
        if oldest > 0:
            _remove(f"{self.path}.{oldest}")
            _remove(f"{self.path}.{oldest}.idx")
        self._open()


class LoggedStream:
    """The reading end of a rank's stdout or stderr, and its file."""

    def __init__(self, pipe: int, log: LogWriter) -> None:
        self.pipe = pipe
        self.log = log

    def pump(self, budget: int) -> bool:
        """Moves up to `budget` available bytes to the file. Returns False at the end of the stream."""
        while budget > 0:
            try:
                data = os.read(self.pipe, min(budget, 65536))
            except BlockingIOError:
                return True
            if not data:
                return False
            self.log.write(data)
            budget -= len(data)
        return True

    def close(self) -> None:
        """Stops reading."""
        os.close(self.pipe)
        self.log.close()


def highest_part(path: str) -> int:
    """Returns the number of the newest full part of a stream; 0 if none is full."""
    folder, name = os.path.split(path)
    suffixes = (entry[len(name) + 1 :] for entry in os.listdir(folder) if entry.startswith(name + "."))
    return max((int(suffix) for suffix in suffixes if suffix.isdecimal()), default=0)


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
