"""Where checkpoints lie: one protocol over folders of a filesystem and over object stores.

A checkpoint is put together in three moves, the same for every place: `workshop` is a folder on this machine into which
a rank writes its files; `deliver` makes them durable in the place; `commit`, by one rank and when all have delivered,
makes them a checkpoint, at one instant.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import unquote, urlsplit

from windlass.train.checkpoint.store.errors import UnusableError

_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}
"""Protocol → the package that fsspec takes for it."""


class Place(Protocol):
    """Names are relative: "LATEST", "step-00000500/manifest.json". Methods raise PlaceError, told with its fix."""

    @property
    def text(self) -> str:
        """The place as people write it."""

    def names(self) -> list[str]:
        """Folders and files directly inside; empty if there is no such place yet."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Bytes of every file directly inside a folder; empty if there is none."""

    def read(self, name: str) -> bytes | None:
        """A small file, whole; None if there is none."""

    def open(self, name: str) -> BinaryIO:
        """A file, to be read in pieces and in any order. Raises FileNotFoundError, and OSError as it is read."""

    def write(self, name: str, data: bytes) -> None:
        """A small file, whole or not at all, whatever was there before."""

    def remove(self, name: str) -> None:
        """A file, or a folder with all inside; at no instant does part of a checkpoint look like a whole one."""

    def workshop(self, folder: str, rank: int) -> Path:
        """Where a rank writes what is going to be in `folder`."""

    def deliver(self, folder: str, workshop: Path, files: Mapping[str, int]) -> None:
        """Make a rank's files durable in the place. `files`: name → bytes."""

    def commit(self, folder: str, manifest: bytes, files: Mapping[str, int]) -> None:
        """Make a checkpoint of what all ranks have delivered. `files`: of all of them."""

    def clear(self, folder: str) -> None:
        """Forget what was begun of `folder`, by one rank; a checkpoint stays."""

    def leave(self, workshop: Path) -> None:
        """Give up a rank's workshop."""


def place_of(text: str) -> Place:
    """The place that "/runs/a", "file:///runs/a" or "s3://bucket/a" means. Nothing is looked at yet.

    Raises UnusableError, with what to install where a package is missing.
    """
    protocol, separator, _ = text.partition("://")
    if not text.strip():
        raise UnusableError(
            "a place for checkpoints is a folder or an address such as s3://bucket/run; this one is empty"
        )
    if not separator or protocol == "file":
        from windlass.train.checkpoint.store.posix import Folder  # noqa: PLC0415 - the other kind may be meant

        return Folder(Path(unquote(urlsplit(text).path) if separator else text).expanduser().absolute())
    from windlass.train.checkpoint.store.objects import Objects  # noqa: PLC0415 - loads fsspec

    return Objects.at(text, _PACKAGES.get(protocol, ""))
