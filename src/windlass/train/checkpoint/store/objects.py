"""An object store through fsspec: files first, the manifest last. Nothing is renamed, and listings are not believed.

Stores answer a read after a write with what was written; their listings may lag behind. So what is a checkpoint is
decided by reading its manifest, and `LATEST` names one that a listing does not show yet.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from windlass.train.checkpoint.store.backoff import ShortReadError, retried
from windlass.train.checkpoint.store.errors import PlaceError, UnusableError
from windlass.train.checkpoint.store.layout import MANIFEST
from windlass.train.checkpoint.store.trouble import told

T = TypeVar("T")
SCRATCH = "WINDLASS_SCRATCH"
"""Names the folder for files on their way to a store; without it, the system's for temporary files."""


@dataclass(frozen=True, slots=True)
class Objects:
    """See `Place`. `root` is the place in the store's own words."""

    text: str
    store: Any
    root: str

    @classmethod
    def at(cls, text: str, package: str) -> Objects:
        """The store of an address. Raises PlaceError where `package`, or fsspec, is not installed."""
        try:
            from fsspec.core import url_to_fs  # noqa: PLC0415 - only where a store is used

            store, root = url_to_fs(text, use_listings_cache=False, skip_instance_cache=True)
        except ImportError as error:
            missing = error.name or package or str(error)
            asked = "'windlass[s3]'" if package in ("s3fs", "") else f"fsspec {package}"
            raise UnusableError(f"{text}: {missing} is not installed\npip install {asked}") from None
        except ValueError as error:
            raise UnusableError(f"{text}: {error}\nplaces are folders, s3://bucket/run, gs://… or abfs://…") from None
        return cls(text.rstrip("/"), store, root.rstrip("/"))

    def names(self) -> list[str]:
        """What is directly inside."""
        return sorted(name for name, _ in self._listed("", "listing it"))

    def sizes(self, folder: str) -> dict[str, int]:
        """Bytes of what is in a folder."""
        found = self._listed(folder, f"listing {folder}")
        return {name: int(entry["size"]) for name, entry in found if entry["type"] == "file"}

    def read(self, name: str) -> bytes | None:
        """A small file, or None."""
        try:
            return bytes(self._asked(f"reading {name}", lambda: self.store.cat_file(self._key(name))))
        except PlaceError as error:
            if not _is_missing(error.__cause__):
                raise
            return None

    def open(self, name: str) -> BinaryIO:
        """A file to read in."""
        return cast(BinaryIO, retried(lambda: self.store.open(self._key(name), "rb")))

    def write(self, name: str, data: bytes) -> None:
        """A small file, in one go."""
        self._asked(f"writing {name}", lambda: self.store.pipe_file(self._key(name), data))

    def remove(self, name: str) -> None:
        """A file or a folder."""

        def gone() -> None:
            """The manifest first: what is left, should this be cut short, is no checkpoint."""
            for key in (self._key(f"{name}/{MANIFEST}"), self._key(name)):
                try:
                    self.store.rm(key, recursive=key == self._key(name))
                except FileNotFoundError as error:
                    if not _is_missing(error):
                        raise

        self._asked(f"removing {name}", gone)

    def workshop(self, folder: str, rank: int) -> Path:  # noqa: ARG002 - one save is in flight
        """Where this rank writes: on its machine, and where it finds and removes what it left when it was killed."""
        scratch = Path(os.environ.get(SCRATCH) or tempfile.gettempdir())
        made = scratch / f"windlass-{os.getuid()}-{zlib.crc32(self.text.encode()):08x}-{rank}"
        with told(str(made), "making a scratch folder"):
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir(parents=True)
        return made

    def deliver(self, folder: str, workshop: Path, files: Mapping[str, int]) -> None:
        """Its files are in the place for good."""
        for name, size in files.items():
            put = partial(self._put, workshop / name, f"{folder}/{name}", size)
            self._asked(f"writing {folder}/{name}", put)

    def commit(self, folder: str, manifest: bytes, files: Mapping[str, int]) -> None:  # noqa: ARG002
        """From now on it is a checkpoint."""
        self.write(f"{folder}/{MANIFEST}", manifest)

    def clear(self, folder: str) -> None:
        """It was never begun."""
        if self.read(f"{folder}/{MANIFEST}") is None:
            self.remove(folder)

    def leave(self, workshop: Path) -> None:
        """What was on its way has arrived, or is not wanted."""
        shutil.rmtree(workshop, ignore_errors=True)

    def _put(self, file: Path, name: str, size: int) -> None:
        """One file, and the store's word that it has all of it."""
        self.store.put_file(str(file), self._key(name))
        if (stored := int(self.store.info(self._key(name), refresh=True)["size"])) != size:
            raise ShortReadError(f"{name} has {stored} bytes in the store, and {size} were sent")

    def _listed(self, folder: str, doing: str) -> list[tuple[str, dict[str, Any]]]:
        def look() -> list[dict[str, Any]]:
            try:
                return list(self.store.ls(self._key(folder), detail=True, refresh=True))
            except FileNotFoundError as error:
                if not _is_missing(error):
                    raise
                return []

        entries = self._asked(doing, look)
        return [(entry["name"].rstrip("/").rpartition("/")[2], entry) for entry in entries]

    def _asked(self, doing: str, work: Callable[[], T]) -> T:
        with told(self.text, doing):
            return retried(work)

    def _key(self, name: str) -> str:
        return f"{self.root}/{name}".rstrip("/")


def _is_missing(error: BaseException | None) -> bool:
    """No such object, in a bucket that is there."""
    return isinstance(error, FileNotFoundError) and "bucket does not exist" not in str(error)
