"""The inventory of a storage: checkpoints with their manifests, and incomplete ones. Reads no tensor data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from windlass.train.checkpoint.store.errors import CheckpointManifestError, NewerFormatError
from windlass.train.checkpoint.store.layout import LATEST, MANIFEST, CheckpointKey, incomplete_in, key_of, keys_in
from windlass.train.checkpoint.store.manifest import Manifest
from windlass.train.checkpoint.store.retention import Retention, keys_to_prune
from windlass.train.checkpoint.store.storage import StorageBackend
from windlass.train.checkpoint.store.verification import FileProblem, manifest_problem, read_manifest


class CheckpointStatus(StrEnum):
    """Status of a folder, as far as it is known without reading its files."""

    COMPLETE = "complete"
    DAMAGED = "damaged"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """One folder of a storage."""

    folder: str
    state: CheckpointStatus
    step: int | None
    manifest: Manifest | None = None
    problems: tuple[FileProblem, ...] = ()


def candidate_keys(storage: StorageBackend) -> list[CheckpointKey]:
    """Return the keys of possible checkpoints, newest first, including one that only `LATEST` names."""
    return keys_in({*storage.names(), (storage.read(LATEST) or b"").decode(errors="replace").strip()})


def newest_complete(storage: StorageBackend, most: float = math.inf) -> tuple[int | None, Mapping[str, Any]]:
    """Return the step of the newest checkpoint with a readable manifest, at most `most`, and the facts in it."""
    for key in candidate_keys(storage):
        manifest = inspect_checkpoint(storage, key).manifest if key.step <= most else None
        if manifest is not None:
            return key.step, manifest.facts
    return None, {}


def list_checkpoints(storage: StorageBackend) -> list[CheckpointEntry]:
    """List all folders of checkpoints, newest first; incomplete ones come last."""
    names = storage.names()
    unfinished = [CheckpointEntry(name, CheckpointStatus.UNFINISHED, None) for name in incomplete_in(names)]
    seen = [inspect_checkpoint(storage, key) for key in candidate_keys(storage)]
    return [*(each for each in seen if each.folder in names or each.manifest), *unfinished]


def inspect_checkpoint(storage: StorageBackend, key: CheckpointKey) -> CheckpointEntry:
    """Inspect one checkpoint: its manifest, and whether its files exist with their sizes. Raises NewerFormatError."""
    folder, step = key.folder, key.step
    try:
        manifest = read_manifest(storage, folder)
    except NewerFormatError:
        raise
    except CheckpointManifestError as error:
        return CheckpointEntry(folder, CheckpointStatus.DAMAGED, step, None, (manifest_problem(error),))
    if manifest is None:
        return CheckpointEntry(folder, CheckpointStatus.UNFINISHED, step)
    problems = step_mismatch(manifest, step) or tuple(_size_problems(storage.sizes(folder), manifest))
    return CheckpointEntry(
        folder, CheckpointStatus.DAMAGED if problems else CheckpointStatus.COMPLETE, step, manifest, problems
    )


def step_mismatch(manifest: Manifest, step: int) -> tuple[FileProblem, ...]:
    """Return a problem for a manifest in the folder of another step."""
    return () if manifest.step == step else (FileProblem(MANIFEST, f"is of step {manifest.step:,}"),)


def incomplete_folders(storage: StorageBackend) -> list[str]:
    """Return the folders of interrupted saves: no checkpoints, and not continued."""
    names = storage.names()
    empty = [name for name in names if key_of(name) is not None and storage.read(f"{name}/{MANIFEST}") is None]
    return [*incomplete_in(names), *empty]


def _size_problems(sizes: dict[str, int], manifest: Manifest) -> list[FileProblem]:
    compared = ((name, sizes.get(name), fact.size) for name, fact in manifest.files.items())
    return [
        FileProblem(name, "is missing" if found is None else f"has {found:,} bytes, and {wanted:,} were written")
        for name, found, wanted in compared
        if found != wanted
    ]


def prunable_checkpoints(storage: StorageBackend, retention: Retention) -> list[CheckpointKey]:
    """Return the checkpoints that pruning removes, oldest first.

    A damaged checkpoint does not count as kept: it is removed when a newer one is complete.
    """
    seen = [(key, each.state) for each in list_checkpoints(storage) if (key := key_of(each.folder)) is not None]
    complete = [key for key, state in seen if state is CheckpointStatus.COMPLETE]
    if not complete:
        return []
    damaged = [key for key, state in seen if state is CheckpointStatus.DAMAGED]
    return sorted([*keys_to_prune(complete, retention), *(key for key in damaged if key < max(complete))])
