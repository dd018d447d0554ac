"""Checkpoints of a job on this machine, by their manifests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.backends.local.checkpoints import checkpoint_places
from windlass.backends.local.paths import StatePaths

if TYPE_CHECKING:
    from windlass.train.checkpoint.store.inventory import CheckpointEntry

Json = dict[str, Any]
_MAX_LISTED = 50


def read_checkpoints(paths: StatePaths, job_id: str) -> Json:
    """The `place` of a job's checkpoints and the newest ones.

    `is_remote`: the place is an address, which is not read; `trouble`: the reason why a folder cannot be read.
    """
    from windlass.train.checkpoint.store.errors import CheckpointError  # noqa: PLC0415 - rarely needed
    from windlass.train.checkpoint.store.folder_storage import FolderStorage  # noqa: PLC0415 - rarely needed
    from windlass.train.checkpoint.store.inventory import list_checkpoints  # noqa: PLC0415

    place = checkpoint_places(paths, job_id)[0].place
    answer = {"place": place, "is_remote": "://" in place, "trouble": "", "checkpoints": []}
    storage = FolderStorage(Path(place))
    if answer["is_remote"] or not storage.path.is_dir():
        return answer
    try:
        found = list_checkpoints(storage)[:_MAX_LISTED]
    except CheckpointError as error:
        return {**answer, "trouble": str(error)}
    return {**answer, "checkpoints": [_line(each) for each in found]}


def _line(entry: CheckpointEntry) -> Json:
    manifest = entry.manifest
    return {
        "step": entry.step,
        "state": entry.state.value,
        "size": manifest.size if manifest else None,
        "saved_at": manifest.saved_at if manifest else None,
        "folder": entry.folder,
        "why": "; ".join(map(str, entry.problems)),
    }
