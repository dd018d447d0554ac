"""Checkpoints of a folder, read byte by byte and compared with their manifests by the training library's own code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass.labs.evidence.findings import EvidenceError
from windlass.train.checkpoint.store.errors import CheckpointError
from windlass.train.checkpoint.store.folder_storage import FolderStorage
from windlass.train.checkpoint.store.inventory import CheckpointEntry, list_checkpoints
from windlass.train.checkpoint.store.verification import verify_files


@dataclass(frozen=True, slots=True)
class LabCheckpoint:
    """One checkpoint. `problems`: what differs from the manifest; a good one has none."""

    folder: str
    step: int | None
    """None: a folder whose save did not finish."""
    is_good: bool
    problems: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    facts: Mapping[str, Any] | None = None
    """Facts of the run in the manifest, such as its ranks and its mesh."""


def read_checkpoints(folder: Path) -> list[LabCheckpoint]:
    """Returns the checkpoints of a folder, newest first; unfinished ones last. Raises EvidenceError."""
    storage = FolderStorage(folder)
    try:
        return [_verified(storage, entry) for entry in list_checkpoints(storage)]
    except (CheckpointError, OSError) as error:
        raise EvidenceError(f"the checkpoints in {folder.name} cannot be read: {error}", "save them again") from None


def _verified(storage: FolderStorage, entry: CheckpointEntry) -> LabCheckpoint:
    manifest, problems = entry.manifest, entry.problems
    if manifest is None:
        return LabCheckpoint(entry.folder, entry.step, is_good=False, problems=tuple(map(str, problems)))
    if not problems:
        problems = tuple(verify_files(storage, entry.folder, manifest, manifest.files))
    return LabCheckpoint(
        entry.folder,
        entry.step,
        is_good=not problems,
        problems=tuple(map(str, problems)),
        tensors=tuple(manifest.tensors),
        facts=manifest.facts,
    )
