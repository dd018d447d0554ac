"""The storage backend: one protocol over folders of a filesystem and over object stores.

A checkpoint is written in three steps, the same for every backend: a rank writes its files into a `staging_directory`
on its machine; `upload` makes them durable in the storage; `commit`, by one rank after all have uploaded, makes them a
checkpoint, atomically.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import unquote, urlsplit

from windlass.train.checkpoint.store.errors import StorageUnusableError

_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}
"""Protocol → the package that fsspec needs for it."""


class StorageBackend(Protocol):
    """A storage of checkpoints. Names are relative: "LATEST", "step-00000500/manifest.json".

    Methods raise StorageError.
    """

    @property
    def location(self) -> str:
        """The location as users write it."""

    def names(self) -> list[str]:
        """Return folders and files directly inside; empty if the location does not exist yet."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the bytes of every file directly inside a folder; empty if there is none."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file; None if there is none."""

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading in any order. Raises FileNotFoundError, and OSError on reads."""

    def write(self, name: str, data: bytes) -> None:
        """Write a small file atomically, replacing any earlier one."""

    def create(self, name: str, data: bytes) -> bool:
        """Write a small file unless there is one of that name; return whether `data` is its content now.

        An object store without conditional writes replaces an earlier file.
        """

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with its content; meanwhile a part never looks like a complete checkpoint."""

    def staging_directory(self, folder: str, rank: int) -> Path:
        """Create and return the local directory for a rank's files of `folder`."""

    def upload(self, folder: str, staging: Path, files: Mapping[str, int]) -> None:
        """Make a rank's files durable in the storage. `files`: name → bytes."""

    def commit(self, folder: str, manifest: bytes, files: Mapping[str, int]) -> None:
        """Make a checkpoint of the uploaded files of all ranks. `files`: of all of them."""

    def discard(self, folder: str) -> None:
        """Remove an incomplete `folder`, by one rank; a checkpoint stays."""

    def release_staging(self, staging: Path) -> None:
        """Release a rank's staging directory."""


def open_storage(text: str) -> StorageBackend:
    """Return the storage of "/runs/a", "file:///runs/a" or "s3://bucket/a", without accessing it.

    Raises StorageUnusableError, with what to install where a package is missing.
    """
    protocol, separator, _ = text.partition("://")
    if not text.strip():
        raise StorageUnusableError(
            "a checkpoint location is a folder or an address such as s3://bucket/run; this one is empty"
        )
    if not separator or protocol == "file":
        from windlass.train.checkpoint.store.folder_storage import FolderStorage  # noqa: PLC0415 - only for this kind

        return FolderStorage(Path(unquote(urlsplit(text).path) if separator else text).expanduser().absolute())
    from windlass.train.checkpoint.store.object_storage import open_object_store  # noqa: PLC0415 - loads fsspec

    return open_object_store(text, _PACKAGES.get(protocol, ""))
