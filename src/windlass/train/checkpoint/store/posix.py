"""A folder on a filesystem, shared by all nodes: written aside, synced, and given its name in one instant."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from windlass.train.checkpoint.store.backoff import pauses
from windlass.train.checkpoint.store.errors import UnusableError
from windlass.train.checkpoint.store.layout import MANIFEST, TORN
from windlass.train.checkpoint.store.trouble import told


@dataclass(frozen=True, slots=True)
class Folder:
    """See `Place`."""

    path: Path

    @property
    def text(self) -> str:
        """The path."""
        return str(self.path)

    def names(self) -> list[str]:
        """What is directly inside."""
        with self._told("listing it"), _missing_is_empty():
            return sorted(entry.name for entry in self.path.iterdir())
        return []

    def sizes(self, folder: str) -> dict[str, int]:
        """Bytes of what is in a folder."""
        with self._told(f"listing {folder}"), _missing_is_empty(), os.scandir(self.path / folder) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
        return {}

    def read(self, name: str) -> bytes | None:
        """A small file, or None."""
        with self._told(f"reading {name}"), _missing_is_empty():
            return (self.path / name).read_bytes()
        return None

    def open(self, name: str) -> BinaryIO:
        """A file to read in."""
        return (self.path / name).open("rb")

    def write(self, name: str, data: bytes) -> None:
        """A small file, in one go."""
        target = self.path / name
        with self._told(f"writing {name}"):
            target.parent.mkdir(parents=True, exist_ok=True)
            beside = target.with_name(target.name + TORN)
            _write_synced(beside, data)
            beside.replace(target)
            _sync(target.parent)

    def remove(self, name: str) -> None:
        """A file or a folder."""
        target = self.path / name
        with self._told(f"removing {name}"), _missing_is_empty():
            if not target.is_dir():
                target.unlink()
                return
            aside = target if name.endswith(TORN) else target.with_name(name + TORN)
            if aside != target:
                shutil.rmtree(aside, ignore_errors=True)
                target.rename(aside)
            shutil.rmtree(aside)

    def workshop(self, folder: str, rank: int) -> Path:  # noqa: ARG002 - all ranks share it
        """Where this rank writes."""
        made = self.path / (folder + TORN)
        with self._told(f"making {made.name}"):
            made.mkdir(parents=True, exist_ok=True)
        return made

    def deliver(self, folder: str, workshop: Path, files: Mapping[str, int]) -> None:
        """Its files are in the place for good."""
        with self._told(f"writing {folder}"):
            for name in files:
                _sync(workshop / name)

    def commit(self, folder: str, manifest: bytes, files: Mapping[str, int]) -> None:
        """From now on it is a checkpoint."""
        made = self.path / (folder + TORN)
        self._refuse_what_is_elsewhere(made.name, files)
        with self._told(f"committing {folder}"):
            _write_synced(made / MANIFEST, manifest)
            _sync(made)
            made.rename(self.path / folder)
            _sync(self.path)

    def clear(self, folder: str) -> None:
        """It was never begun."""
        self.remove(folder + TORN)

    def leave(self, workshop: Path) -> None:
        """The workshop is the checkpoint now, or was cleared."""

    def _refuse_what_is_elsewhere(self, folder: str, files: Mapping[str, int]) -> None:
        """A folder that each node has for itself looks fine to everybody but is no checkpoint."""
        for seconds in pauses(tries=5):
            here = self.sizes(folder)
            if not (elsewhere := sorted(name for name in files if here.get(name) != files[name])):
                return
            time.sleep(seconds)  # a server of files may take a moment to show what another node wrote
        raise UnusableError(
            f"{self.path}: {len(elsewhere)} of {len(files)} files, written by other ranks, cannot be seen by rank 0: "
            f"{', '.join(elsewhere[:3])}\nall nodes have to share the folder; or name an object store (s3://bucket/run)"
        )

    @contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        with told(self.text, doing):
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
