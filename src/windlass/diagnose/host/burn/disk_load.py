"""Writes a file, reads it again past the page cache, and compares: speed and errors of a disk."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time

from windlass.diagnose.host.burn.measurement import Measurement

_MIB = 1 << 20
_BLOCK = 4 * _MIB
_LARGEST = 4096 * _MIB
_FREE_PART = 4
"""At most a quarter of the free space is written."""


def measure_disk(folder: str, seconds: float) -> Measurement:
    """Returns the write speed with fsync, and the read speed; half of the time is for each."""
    test = f"disk:{folder}"
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    limit = min(_LARGEST, free // _FREE_PART)
    if limit < _BLOCK:
        return Measurement(test, folder, failure=f"too little space: {free // _MIB} MiB are free")
    block = os.urandom(_BLOCK)
    with tempfile.TemporaryFile(dir=folder, prefix=".windlass-burn-", buffering=0) as file:
        begun = time.perf_counter()
        count = _write(file.fileno(), block, limit, seconds / 2)
        written = time.perf_counter()
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        wrong = _read(file.fileno(), hashlib.sha256(block).digest(), count)
        read = time.perf_counter()
    size = count * _BLOCK / 1e6
    detail = f"read {size / (read - written):,.4g} MB/s, {count * _BLOCK // _MIB} MiB"
    return Measurement(test, folder, size / (written - begun), "MB/s written", wrong, detail=detail)


def _write(descriptor: int, block: bytes, limit: int, seconds: float) -> int:
    """Writes blocks until the time or the space is used up; returns their number."""
    until, count = time.perf_counter() + seconds, 0
    while not count or ((count + 1) * _BLOCK <= limit and time.perf_counter() < until):
        view = memoryview(block)
        while view:
            view = view[os.write(descriptor, view) :]
        count += 1
    os.fsync(descriptor)
    return count


def _read(descriptor: int, expected: bytes, count: int) -> int:
    """Returns the number of blocks that differ from what was written."""
    wrong = 0
    for _ in range(count):
        read = hashlib.sha256()
        left = _BLOCK
        while left and (data := os.read(descriptor, left)):
            read.update(data)
            left -= len(data)
        wrong += read.digest() != expected
    return wrong
