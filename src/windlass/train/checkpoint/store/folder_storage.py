"""A folder of a filesystem shared by all nodes: written in a staging directory, synced, and renamed atomically."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from windlass.train.checkpoint.store import lease
from windlass.train.checkpoint.store.backoff import becomes_true
from windlass.train.checkpoint.store.errors import StorageUnusableError
from windlass.train.checkpoint.store.layout import INCOMPLETE_SUFFIX, MANIFEST
from windlass.train.checkpoint.store.storage_errors import translate_errors


@dataclass(frozen=True, slots=True)
class FolderStorage:
    """A `StorageBackend` over a folder."""

    path: Path

    @property
    def location(self) -> str:
        """The path."""
        return str(self.path)

    def names(self) -> list[str]:
        """Return the names directly inside."""
        with self._errors("listing it"), _missing_is_empty():
            return sorted(entry.name for entry in self.path.iterdir())
        return []

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the bytes of each file in a folder."""
        found: dict[str, int] = {}
        with self._errors(f"listing {folder}"), _missing_is_empty(), os.scandir(self.path / folder) as entries:
            for entry in entries:
                with _missing_is_empty():  # another process may rename or remove one file meanwhile
                    if entry.is_file():
                        found[entry.name] = entry.stat().st_size
        return found

    def read(self, name: str) -> bytes | None:
        """Return a small file, or None."""
        with self._errors(f"reading {name}"), _missing_is_empty():
            return (self.path / name).read_bytes()
        return None

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading."""
        return (self.path / name).open("rb")

    def write(self, name: str, data: bytes) -> None:
        """Write a small file atomically."""
        target = self.path / name
        with self._errors(f"writing {name}"):
            target.parent.mkdir(parents=True, exist_ok=True)
            beside = target.with_name(target.name + INCOMPLETE_SUFFIX)
            _write_synced(beside, data)
            beside.replace(target)
            _sync(target.parent)

    def create(self, name: str, data: bytes) -> bool:
        """Create a small file by O_EXCL. It is not synced: a lease need not outlive the machine of its holder."""
        target = self.path / name
        with self._errors(f"writing {name}"):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with target.open("xb") as file:
                    file.write(data)
            except FileExistsError:
                return False
        return True

    def remove(self, name: str) -> None:
        """Remove a file or a folder."""
        target = self.path / name
        with self._errors(f"removing {name}"), _missing_is_empty():
            if not target.is_dir():
                target.unlink()
                return
            aside = target if name.endswith(INCOMPLETE_SUFFIX) else target.with_name(name + INCOMPLETE_SUFFIX)
            if aside != target:
                shutil.rmtree(aside, ignore_errors=True)
                target.rename(aside)
            shutil.rmtree(aside)

    def staging_directory(self, folder: str, rank: int) -> Path:  # noqa: ARG002 - all ranks share it
        """Create and return the shared staging directory."""
        made = self.path / (folder + INCOMPLETE_SUFFIX)
        with self._errors(f"making {made.name}"):
            made.mkdir(parents=True, exist_ok=True)
        return made

    def upload(self, folder: str, staging: Path, files: Mapping[str, int]) -> None:
        """Sync the files to the disk."""
        with self._errors(f"writing {folder}"):
            for name in files:
                _sync(staging / name)

    def commit(self, folder: str, manifest: bytes, files: Mapping[str, int]) -> None:
        """Write the manifest and rename the staging directory, which makes it a checkpoint."""
        made = self.path / (folder + INCOMPLETE_SUFFIX)
        self._refuse_unshared_folder(made.name, files)
        with self._errors(f"committing {folder}"):
            _write_synced(made / MANIFEST, manifest)
            _sync(made)
            made.rename(self.path / folder)
            _sync(self.path)

    def discard(self, folder: str) -> None:
        """Remove the staging directory."""
        self.remove(folder + INCOMPLETE_SUFFIX)

    def release_staging(self, staging: Path) -> None:
        """Do nothing: the directory was renamed or discarded."""

    def _refuse_unshared_folder(self, folder: str, files: Mapping[str, int]) -> None:
        """Raise StorageUnusableError where files of other ranks are missing: each node has a folder of its own."""
        elsewhere: list[str] = []

        def is_complete() -> bool:
            here = self.sizes(folder)
            elsewhere[:] = sorted(name for name in files if here.get(name) != files[name])
            return not elsewhere

        if becomes_true(is_complete, lease.DURATION_S):  # a network filesystem may cache a folder for that long
            return
        raise StorageUnusableError(
            f"{self.path}: {len(elsewhere)} of {len(files)} files, written by other ranks, are not visible to rank 0: "
            f"{', '.join(elsewhere[:3])}\nall nodes must share the folder; or use an object store (s3://bucket/run)"
        )

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        with translate_errors(self.location, doing):
            yield


@contextmanager
def _missing_is_empty() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        return


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
