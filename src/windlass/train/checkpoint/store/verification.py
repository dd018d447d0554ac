"""Verifies a checkpoint against its manifest, byte by byte."""

from __future__ import annotations

import errno
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from windlass.train.checkpoint.store.backoff import retry
from windlass.train.checkpoint.store.errors import CheckpointManifestError, NewerFormatError
from windlass.train.checkpoint.store.layout import MANIFEST
from windlass.train.checkpoint.store.manifest import FileFact, Manifest, from_json
from windlass.train.checkpoint.store.storage import StorageBackend
from windlass.train.checkpoint.store.storage_errors import translate_errors

_CHUNK_BYTES = 8 << 20
_READERS = 4
"""Number of files that one process reads at a time; checksums run without Python's lock."""

_DAMAGE_CODES = (errno.EISDIR, errno.ENOTDIR, errno.ELOOP)
"""Errors of a path that is no file any more. All others, such as missing permissions, are the storage's or this
process's: the checkpoint may be good, and a run that continued from an older one would remove it."""

ByteCounter = Callable[[int], None]
"""Callback with the number of further bytes read; called from any thread."""


class FileProblem(NamedTuple):
    """One file that differs from its manifest."""

    file: str
    why: str

    def __str__(self) -> str:
        return f"{self.file} {self.why}"


def read_manifest(storage: StorageBackend, folder: str) -> Manifest | None:
    """Read the manifest of a folder; None if there is none, so no checkpoint. Raises as `parse_manifest`."""
    data = storage.read(f"{folder}/{MANIFEST}")
    return None if data is None else parse_manifest(storage, folder, data)


def parse_manifest(storage: StorageBackend, folder: str, data: bytes) -> Manifest:
    """Parse the manifest of a folder. Raises CheckpointManifestError; NewerFormatError with the place."""
    try:
        return from_json(data)
    except NewerFormatError as error:
        raise NewerFormatError(f"{storage.location}: the manifest of {folder} {error}") from None


def verify_files(
    storage: StorageBackend, folder: str, manifest: Manifest, names: Iterable[str], on_read: ByteCounter | None = None
) -> list[FileProblem]:
    """Read these files whole; return the damaged ones. Raises StorageError where the storage does not answer."""
    with ThreadPoolExecutor(_READERS, thread_name_prefix="verify") as readers:
        look = partial(_verify_file, storage, folder, on_read=on_read or _ignore)
        found = list(readers.map(lambda name: look(name, manifest.files[name]), names))
    return [problem for problem in found if problem]


def manifest_problem(error: CheckpointManifestError) -> FileProblem:
    """Return the problem of a manifest."""
    return FileProblem(MANIFEST, str(error))


def _verify_file(
    storage: StorageBackend, folder: str, name: str, fact: FileFact, *, on_read: ByteCounter
) -> FileProblem | None:
    with translate_errors(storage.location, f"reading {folder}/{name}"):
        try:
            size, crc32 = retry(lambda: _read_checksum(storage, f"{folder}/{name}", fact.size, on_read))
        except FileNotFoundError:
            return FileProblem(name, "is missing")
        except OSError as error:
            if error.errno in _DAMAGE_CODES:
                return FileProblem(name, f"cannot be read: {error.strerror or error}")
            raise
    if size != fact.size:
        return FileProblem(name, f"has {size:,} bytes, and {fact.size:,} were written")
    if crc32 != fact.crc32:
        return FileProblem(name, f"was changed after it was written (CRC-32 {crc32:08x}, and it was {fact.crc32:08x})")
    return None


def _read_checksum(storage: StorageBackend, name: str, expected: int, on_read: ByteCounter) -> tuple[int, int]:
    """Return (bytes, CRC-32) of a file; reading stops soon after the expected size."""
    size = crc32 = 0
    with storage.open(name) as file:
        while size <= expected and (part := file.read(_CHUNK_BYTES)):
            size += len(part)
            crc32 = zlib.crc32(part, crc32)
            on_read(len(part))
    return size, crc32


def _ignore(_count: int) -> None:
    """Callback without effect."""
