"""Whether a checkpoint is what its manifest says, byte by byte."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from windlass.train.checkpoint.store.backoff import ShortReadError, passes, retried
from windlass.train.checkpoint.store.errors import ManifestError
from windlass.train.checkpoint.store.layout import MANIFEST
from windlass.train.checkpoint.store.manifest import FileFact, Manifest, from_json
from windlass.train.checkpoint.store.places import Place
from windlass.train.checkpoint.store.trouble import told

_AT_ONCE = 8 << 20
_READERS = 4
"""Files that one process reads at a time; checksums are made without Python's lock."""

Progress = Callable[[int], None]
"""Told how many more bytes were read; from any thread."""


class Trouble(NamedTuple):
    """One file that is not what it should be."""

    file: str
    why: str

    def __str__(self) -> str:
        return f"{self.file} {self.why}"


def manifest_of(place: Place, folder: str) -> Manifest | None:
    """What a folder says of itself; None if it says nothing, and is no checkpoint. Raises ManifestError."""
    data = place.read(f"{folder}/{MANIFEST}")
    return None if data is None else from_json(data)


def verified(
    place: Place, folder: str, manifest: Manifest, names: Iterable[str], tell: Progress | None = None
) -> list[Trouble]:
    """Read these files whole, and say which are damaged. Raises PlaceError where the place does not answer."""
    with ThreadPoolExecutor(_READERS, thread_name_prefix="verify") as readers:
        look = partial(_look, place, folder, tell=tell or _nobody)
        found = list(readers.map(lambda name: look(name, manifest.files[name]), names))
    return [trouble for trouble in found if trouble]


def manifest_trouble(error: ManifestError) -> Trouble:
    """The same of a manifest."""
    return Trouble(MANIFEST, str(error))


def _look(place: Place, folder: str, name: str, fact: FileFact, *, tell: Progress) -> Trouble | None:
    with told(place.text, f"reading {folder}/{name}"):
        try:
            size, crc32 = retried(lambda: _summed(place, f"{folder}/{name}", fact.size, tell))
        except FileNotFoundError:
            return Trouble(name, "is missing")
        except OSError as error:
            if isinstance(error, ShortReadError) or not passes(error):
                return Trouble(name, f"cannot be read: {error.strerror or error}")
            raise
    if size != fact.size:
        return Trouble(name, f"has {size:,} bytes, and {fact.size:,} were written")
    if crc32 != fact.crc32:
        return Trouble(name, f"was changed after it was written (CRC-32 {crc32:08x}, and it was {fact.crc32:08x})")
    return None


def _summed(place: Place, name: str, expected: int, tell: Progress) -> tuple[int, int]:
    """(bytes, CRC-32) of a file; reading ends soon after it is longer than expected."""
    size = crc32 = 0
    with place.open(name) as file:
        while size <= expected and (part := file.read(_AT_ONCE)):
            size += len(part)
            crc32 = zlib.crc32(part, crc32)
            tell(len(part))
    return size, crc32


def _nobody(_count: int) -> None:
    """Nobody wants to know."""
