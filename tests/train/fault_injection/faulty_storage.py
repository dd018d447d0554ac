"""Storage of a run with faults, and damage to its checkpoints: on a small disk, or in a real S3 API."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from windlass.train.checkpoint.store.inventory import (
    CheckpointEntry,
    CheckpointStatus,
    candidate_keys,
    list_checkpoints,
)
from windlass.train.checkpoint.store.layout import MANIFEST, folder_of, incomplete_in, key_of
from windlass.train.checkpoint.store.storage import StorageBackend, open_storage
from windlass.train.checkpoint.store.verification import verify_files

_SERVER = Path(__file__).resolve().parents[1] / "checkpoint/s3_server.py"
_BLOCK = bytes(4096)
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "NO_PROXY": "127.0.0.1",
}


class FaultyStorage(Protocol):
    """A storage that the test can inspect and damage while ranks write to it."""

    text: str

    def committed(self) -> list[int]:
        """Steps of complete checkpoints, by their manifests, newest first."""

    def writing(self) -> bool:
        """Whether a save is in progress."""

    def files(self, step: int) -> list[str]:
        """Names of the files of a checkpoint."""

    def read(self, step: int, name: str) -> bytes:
        """Return the content of one of these files."""

    def replace(self, step: int, name: str, data: bytes) -> None:
        """Replace the content, bypassing all protection. Raises FileNotFoundError if the file is gone."""

    def damaged(self) -> list[int]:
        """Steps of damaged checkpoints, found by reading every byte."""


@dataclass(frozen=True)
class Disk:
    """A folder, on a small filesystem of its own where mounting is permitted."""

    text: str
    can_be_filled: bool
    """Whether the filesystem is its own, so that it can be filled."""

    def committed(self) -> list[int]:
        return _committed(open_storage(self.text))

    def writing(self) -> bool:
        return bool(incomplete_in(entry.name for entry in Path(self.text).glob("*")))

    def files(self, step: int) -> list[str]:
        return sorted(path.name for path in Path(self.text, saved_folder(self.text, step)).iterdir())

    def read(self, step: int, name: str) -> bytes:
        return Path(self.text, saved_folder(self.text, step), name).read_bytes()

    def replace(self, step: int, name: str, data: bytes) -> None:
        with Path(self.text, saved_folder(self.text, step), name).open("r+b") as file:
            file.write(data)
            file.truncate()

    def damaged(self) -> list[int]:
        return _damaged(open_storage(self.text))

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Fill the filesystem."""
        ballast = Path(self.text).parent / "ballast"
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(_BLOCK):
                pass
        try:
            yield
        finally:
            ballast.unlink()


@dataclass(frozen=True)
class Bucket:
    """A prefix of a run in a bucket."""

    text: str
    port: int

    def committed(self) -> list[int]:
        return _committed(self._place)

    def writing(self) -> bool:
        found = self._place.names()
        return any(self._place.read(f"{name}/{MANIFEST}") is None for name in found if key_of(name) is not None)

    def files(self, step: int) -> list[str]:
        return sorted(self._place.sizes(saved_folder(self.text, step)))

    def read(self, step: int, name: str) -> bytes:
        data = self._place.read(f"{saved_folder(self.text, step)}/{name}")
        if data is None:
            raise FileNotFoundError(name)
        return data

    def replace(self, step: int, name: str, data: bytes) -> None:
        self._place.write(f"{saved_folder(self.text, step)}/{name}", data)

    def damaged(self) -> list[int]:
        return _damaged(self._place)

    @cached_property
    def _place(self) -> StorageBackend:
        """The client, connected once."""
        return open_storage(self.text)

    def fail(self, **faults: Any) -> None:
        """Set the faults of the store; none without arguments."""
        _request(self.port, "POST", "/-/faults", json.dumps(faults))


@contextlib.contextmanager
def disk(folder: Path, mebibytes: int = 24) -> Iterator[Disk]:
    """Yield a small filesystem for root; for other users a folder that is never full."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", folder]
    can_be_filled = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield Disk(str(folder / "run"), can_be_filled)
    finally:
        if can_be_filled:
            subprocess.run(["umount", "-l", folder], check=True)


@contextlib.contextmanager
def store() -> Iterator[int]:
    """Start an S3 API with a bucket `bucket`, and its credentials in the environment; yield its port."""
    before = dict(os.environ)
    with subprocess.Popen(
        [sys.executable, _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        port = int(server.stdout.readline())
        os.environ |= {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", **CREDENTIALS}
        try:
            _request(port, "PUT", "/bucket")
            yield port
        finally:
            server.stdin.close()
            os.environ.clear()
            os.environ.update(before)


def saved_folder(place: str | Path, step: int) -> str:
    """Return the folder of the newest checkpoint of a step; if there is none, a name that does not exist."""
    keys = candidate_keys(open_storage(str(place)))
    return next((key.folder for key in keys if key.step == step), folder_of(step))


def damage_file(storage: FaultyStorage, step: int, *, torn: bool, rng: random.Random, names: Sequence[str] = ()) -> str:
    """Damage one file of a checkpoint: truncate it, or flip one bit. Returns its name."""
    name = rng.choice(names or storage.files(step))
    data = bytearray(storage.read(step, name))
    if torn:
        del data[rng.randrange(len(data)) :]
    else:
        bit = rng.randrange(len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
    storage.replace(step, name, bytes(data))
    return name


def _committed(place: StorageBackend) -> list[int]:
    return [
        each.step
        for each in list_checkpoints(place)
        if each.state is CheckpointStatus.COMPLETE and each.step is not None
    ]


def _damaged(place: StorageBackend) -> list[int]:
    return [each.step for each in list_checkpoints(place) if each.step is not None and not _is_intact(place, each)]


def _is_intact(place: StorageBackend, seen: CheckpointEntry) -> bool:
    if seen.state is not CheckpointStatus.COMPLETE or seen.manifest is None:
        return False
    return not verify_files(place, seen.folder, seen.manifest, seen.manifest.files)


def _request(port: int, method: str, path: str, body: str = "") -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, body)
    assert connection.getresponse().status < 300
