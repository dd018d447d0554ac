"""The names of folders and files in a storage. Pure.

step-00000500.lease3/manifest.json   a checkpoint: files of torch's DCP, and the manifest that completes them
step-00000600.lease3.tmp/            one that is being written, or whose writer was killed
LATEST                               the name of the newest; a hint for people, and for listings that lag behind
.windlass/lease-00000003             the lease under which a run writes; the highest number is valid
.windlass/reading-FOLDER-NONCE       a lease of a reader of one checkpoint
.windlass/removing-FOLDER            a mark: this checkpoint is being removed

The number of a lease is its fencing token: each lease that is taken has the next number, and it is part of the name of
every checkpoint that is written under it. Two writers therefore never write the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

MANIFEST = "manifest.json"
LATEST = "LATEST"
INCOMPLETE_SUFFIX = ".tmp"
"""Suffix of a folder whose content is no checkpoint yet, or no longer one."""

CONTROL = ".windlass"
"""Folder of leases and marks."""

_FOLDER = re.compile(r"step-([0-9]{8,18})(?:\.lease([1-9][0-9]{0,17}))?")
_LEASE = re.compile(r"lease-([0-9]{8,18})")


class CheckpointKey(NamedTuple):
    """The identity of a checkpoint. A later key is that of a newer checkpoint: later writers have higher tokens."""

    token: int
    """Fencing token of its writer; 0 where the name has none."""
    step: int

    @property
    def folder(self) -> str:
        """The folder, as "step-00000500.lease3"."""
        return folder_of(self.step, self.token)


def folder_of(step: int, token: int = 0) -> str:
    """Return the folder of a step that is written under a lease."""
    return f"step-{step:08d}" + (f".lease{token}" if token else "")


def key_of(name: str) -> CheckpointKey | None:
    """Return the key of a folder; None if the name is not that of a finished checkpoint."""
    found = _FOLDER.fullmatch(name)
    key = CheckpointKey(int(found[2] or 0), int(found[1])) if found else None
    return key if key and key.folder == name else None


def keys_in(names: Iterable[str]) -> list[CheckpointKey]:
    """Return the keys of folders that may be checkpoints, newest first."""
    return sorted({key for name in names if (key := key_of(name)) is not None}, reverse=True)


def incomplete_in(names: Iterable[str]) -> list[str]:
    """Return names of folders that are incomplete."""
    return sorted(
        name
        for name in names
        if name.endswith(INCOMPLETE_SUFFIX) and key_of(name.removesuffix(INCOMPLETE_SUFFIX)) is not None
    )


def lease_file(token: int) -> str:
    """Return the file of the lease with a token."""
    return f"{CONTROL}/lease-{token:08d}"


def newest_token(names: Iterable[str]) -> int:
    """Return the highest token of the leases in the folder of leases; 0 if there is none."""
    return max((int(found[1]) for name in names if (found := _LEASE.fullmatch(name))), default=0)


def reader_file(folder: str, nonce: str) -> str:
    """Return the file of a reader's lease."""
    return f"{CONTROL}/{_reader_prefix(folder)}{nonce}"


def reader_files(names: Iterable[str], folder: str) -> list[str]:
    """Return the files of the leases of all readers of a checkpoint. `names`: in the folder of leases."""
    return sorted(f"{CONTROL}/{name}" for name in names if name.startswith(_reader_prefix(folder)))


def removal_mark(folder: str) -> str:
    """Return the file that marks a checkpoint which is being removed."""
    return f"{CONTROL}/removing-{folder}"


def removal_marks(names: Iterable[str]) -> list[str]:
    """Return all marks. `names`: in the folder of leases."""
    return sorted(f"{CONTROL}/{name}" for name in names if name.startswith("removing-"))


def _reader_prefix(folder: str) -> str:
    return f"reading-{folder}-"


def files_of_rank(sizes: Mapping[str, int], rank: int, ranks: int) -> list[str]:
    """Return the files that one of `ranks` reads: together every file once, balanced by bytes."""
    loads, mine = [0] * ranks, []
    for name in sorted(sizes, key=lambda each: (-sizes[each], each)):
        least = loads.index(min(loads))
        loads[least] += sizes[name] + 1
        if least == rank:
            mine.append(name)
    return mine
