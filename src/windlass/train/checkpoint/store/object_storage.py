"""An object store through fsspec: files are written first, the manifest last. Nothing is renamed.

Stores return written data on a read after a write, but their listings may lag behind. A checkpoint therefore exists if
its manifest can be read, and `LATEST` names one that a listing does not show yet.
"""

from __future__ import annotations

import errno
import shutil
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from windlass.train.checkpoint.store.backoff import SizeMismatchError, retry
from windlass.train.checkpoint.store.errors import StorageError, StorageUnusableError
from windlass.train.checkpoint.store.layout import MANIFEST
from windlass.train.checkpoint.store.scratch import make_staging, remove_if_empty, scratch_base
from windlass.train.checkpoint.store.storage_errors import translate_errors

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ObjectStorage:
    """A `StorageBackend` over an object store. `filesystem`: fsspec's; `path`: the location as it names it."""

    location: str
    filesystem: Any
    path: str

    def names(self) -> list[str]:
        """Return the names directly inside."""
        return sorted(name for name, _ in self._list("", "listing it"))

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the bytes of each file in a folder."""
        found = self._list(folder, f"listing {folder}")
        return {name: int(entry["size"]) for name, entry in found if entry["type"] == "file"}

    def read(self, name: str) -> bytes | None:
        """Return a small file, or None."""
        try:
            return bytes(self._call(f"reading {name}", lambda: self.filesystem.cat_file(self._key(name))))
        except StorageError as error:
            if not _is_missing(error.__cause__):
                raise
            return None

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading."""
        return cast(BinaryIO, retry(lambda: self.filesystem.open(self._key(name), "rb")))

    def write(self, name: str, data: bytes) -> None:
        """Write a small file atomically."""
        self._call(f"writing {name}", lambda: self.filesystem.pipe_file(self._key(name), data))

    def create(self, name: str, data: bytes) -> bool:
        """Create a small object by a conditional PUT (If-None-Match: *), or by a plain one where there is none."""
        put = partial(self.filesystem.pipe_file, self._key(name), data, mode="create")
        try:
            self._call(f"writing {name}", put)
        except TypeError:  # an older client library without this mode
            self.write(name, data)
        except StorageError as error:
            if getattr(error.__cause__, "errno", None) == errno.ENOSYS:
                self.write(name, data)
                return True
            found = self.read(name)  # an answer that was lost on the way makes a retry fail
            if found is None:
                raise
            return found == data
        return True

    def remove(self, name: str) -> None:
        """Remove a file or a folder."""

        def gone() -> None:
            """Remove the manifest first: what remains after an interruption is no checkpoint."""
            for key in (self._key(f"{name}/{MANIFEST}"), self._key(name)):
                try:
                    self.filesystem.rm(key, recursive=key == self._key(name))
                except FileNotFoundError as error:
                    if not _is_missing(error):
                        raise

        self._call(f"removing {name}", gone)

    def staging_directory(self, folder: str, rank: int) -> Path:  # noqa: ARG002 - one save is in flight
        """Create this rank's local directory, and remove what a killed process has left in it."""
        name = f"{zlib.crc32(self.location.encode()):08x}-{rank}"
        with translate_errors(str(base := scratch_base()), "making a scratch folder"):
            return make_staging(base, name)

    def upload(self, folder: str, staging: Path, files: Mapping[str, int]) -> None:
        """Upload the files."""
        for name, size in files.items():
            put = partial(self._upload_file, staging / name, f"{folder}/{name}", size)
            self._call(f"writing {folder}/{name}", put)

    def commit(self, folder: str, manifest: bytes, files: Mapping[str, int]) -> None:  # noqa: ARG002
        """Write the manifest, which makes it a checkpoint."""
        self.write(f"{folder}/{MANIFEST}", manifest)

    def discard(self, folder: str) -> None:
        """Remove the folder unless it is a checkpoint."""
        if self.read(f"{folder}/{MANIFEST}") is None:
            self.remove(folder)

    def release_staging(self, staging: Path) -> None:
        """Remove the staging directory."""
        shutil.rmtree(staging, ignore_errors=True)
        remove_if_empty(staging.parent)

    def _upload_file(self, file: Path, name: str, size: int) -> None:
        """Upload one file, and check its size in the store. Raises SizeMismatchError."""
        self.filesystem.put_file(str(file), self._key(name))
        if (stored := int(self.filesystem.info(self._key(name), refresh=True)["size"])) != size:
            raise SizeMismatchError(f"{name} has {stored} bytes in the store, and {size} were sent")

    def _list(self, folder: str, doing: str) -> list[tuple[str, dict[str, Any]]]:
        def list_entries() -> list[dict[str, Any]]:
            try:
                return list(self.filesystem.ls(self._key(folder), detail=True, refresh=True))
            except FileNotFoundError as error:
                if not _is_missing(error):
                    raise
                return []

        entries = self._call(doing, list_entries)
        return [(entry["name"].rstrip("/").rpartition("/")[2], entry) for entry in entries]

    def _call(self, doing: str, work: Callable[[], T]) -> T:
        with translate_errors(self.location, doing):
            return retry(work)

    def _key(self, name: str) -> str:
        return f"{self.path}/{name}".rstrip("/")


def open_object_store(location: str, package: str) -> ObjectStorage:
    """Open the store of an address. Raises StorageUnusableError where `package`, or fsspec, is not installed."""
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - only where a store is used

        filesystem, path = url_to_fs(location, use_listings_cache=False, skip_instance_cache=True)
    except ImportError as error:
        missing = error.name or package or str(error)
        requirement = "'windlass-train[s3]'" if package in ("s3fs", "") else f"fsspec {package}"
        raise StorageUnusableError(f"{location}: {missing} is not installed\npip install {requirement}") from None
    except ValueError as error:
        raise StorageUnusableError(
            f"{location}: {error}\nlocations are folders, s3://bucket/run, gs://… or abfs://…"
        ) from None
    return ObjectStorage(location.rstrip("/"), filesystem, path.rstrip("/"))


def _is_missing(error: BaseException | None) -> bool:
    """Whether an object is missing from an existing bucket."""
    return isinstance(error, FileNotFoundError) and "bucket does not exist" not in str(error)
