"""Checkpoints of a workspace: one archive for each, written whole or not at all, and restored into an empty folder."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_BYTES = 256 << 20
"""A larger file stays out of checkpoints: data sets and weights belong on storage of their own."""
KEPT = 3
"""Number of checkpoints that are kept."""
_SUFFIX = ".tar.gz"
_BLOCK_BYTES = 1 << 20
_SKIPPED_FOLDERS = frozenset({"__pycache__", ".ipynb_checkpoints"})
_READ_ERRORS = (OSError, EOFError, tarfile.TarError, ValueError)


@dataclass(frozen=True, slots=True)
class WorkspaceCheckpoint:
    """A checkpoint. `left_out`: files of the workspace that it lacks, as paths below the workspace."""

    path: Path
    files: int
    left_out: tuple[str, ...] = ()


def save_workspace(workspace: Path, checkpoints: Path, now_ms: int) -> WorkspaceCheckpoint:
    """Writes a checkpoint of regular files, and removes old ones. Raises OSError."""
    checkpoints.mkdir(parents=True, exist_ok=True)
    path = checkpoints / f"{now_ms:013d}{_SUFFIX}"
    partial = path.with_suffix(".partial")
    count, left_out = 0, []
    with partial.open("wb") as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
        for each in _files(workspace):
            name = str(each.relative_to(workspace))
            if each.is_symlink() or not each.is_file() or each.stat().st_size > MAX_FILE_BYTES:
                left_out.append(name)
                continue
            archive.add(each, name, recursive=False)
            count += 1
    _sync(partial)
    partial.replace(path)
    for old in _newest_first(checkpoints)[KEPT:]:
        old.unlink(missing_ok=True)
    return WorkspaceCheckpoint(path, count, tuple(left_out))


def restore_workspace(workspace: Path, checkpoints: Path) -> Path | None:
    """Restores the newest readable checkpoint into a workspace without files. Returns it, None if nothing was restored.

    A workspace that holds files is newer than every checkpoint and stays as it is.
    """
    if next(_files(workspace), None) is not None:
        return None
    return next((each for each in _newest_first(checkpoints) if _extract(each, workspace)), None)


def newest_change(workspace: Path) -> float:
    """Returns the time of the newest file of a workspace in seconds since the epoch, 0 without files."""
    return max((_modified(each) for each in _files(workspace)), default=0.0)


def _extract(archive: Path, workspace: Path) -> bool:
    """Replaces the workspace by an archive's content; False if the archive is damaged or leads outside of it."""
    staged = workspace.with_name(f"{workspace.name}.partial")
    shutil.rmtree(staged, ignore_errors=True)
    try:
        with gzip.open(archive) as content:
            while content.read(_BLOCK_BYTES):
                pass  # to its end, where the checksum of the content is
        with tarfile.open(archive, "r:gz") as file:
            file.extractall(staged, filter="data")
    except _READ_ERRORS:
        shutil.rmtree(staged, ignore_errors=True)
        return False
    for each in staged.iterdir() if staged.is_dir() else ():
        target = workspace / each.name
        if target.is_dir():
            shutil.rmtree(target)
        each.replace(target)
    shutil.rmtree(staged, ignore_errors=True)
    return True


def _files(workspace: Path) -> Iterator[Path]:
    """Yields the files of a workspace in a stable order."""
    for folder, folders, files in os.walk(workspace):
        folders[:] = sorted(set(folders) - _SKIPPED_FOLDERS)
        yield from (Path(folder, name) for name in sorted(files))


def _modified(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def _newest_first(checkpoints: Path) -> list[Path]:
    return sorted(checkpoints.glob(f"*{_SUFFIX}"), reverse=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
