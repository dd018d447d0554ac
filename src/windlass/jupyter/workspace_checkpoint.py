"""Checkpoints of a workspace: one archive for each, written whole or not at all, and restored into an empty folder."""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_BYTES = 256 << 20
"""A larger file stays out of checkpoints: data sets and weights belong on storage of their own."""
KEPT = 3
"""Number of checkpoints that are kept."""
_SUFFIX = ".tar.gz"
_BLOCK_BYTES = 1 << 20
_SKIPPED_FOLDERS = frozenset({"__pycache__", ".ipynb_checkpoints"})
_DAMAGES = (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError, ValueError)
"""Errors of an archive itself. Any other, for example of a full disk, says nothing about it."""
_PARTIAL = ".partial"
_STAGED = ".windlass-restore-"
"""First part of the folder's name in which an archive is unpacked, within the workspace: a rename then suffices."""


@dataclass(frozen=True, slots=True)
class WorkspaceCheckpoint:
    """A checkpoint. `left_out`: files of the workspace that it lacks, as paths below the workspace."""

    path: Path
    files: int
    left_out: tuple[str, ...] = ()


def save_workspace(
    workspace: Path, checkpoints: Path, now_ms: int, skipped: Collection[Path] = ()
) -> WorkspaceCheckpoint:
    """Writes a checkpoint of regular files, and removes old ones. Raises OSError.

    `skipped`: folders that do not belong to the workspace, even if they lie in it.
    """
    checkpoints.mkdir(parents=True, exist_ok=True)
    for killed in checkpoints.glob(f"*{_PARTIAL}"):
        killed.unlink(missing_ok=True)
    path = checkpoints / f"{now_ms:013d}{_SUFFIX}"
    partial = path.with_suffix(_PARTIAL)
    try:
        count, left_out = _write(partial, workspace, [checkpoints, *skipped])
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    partial.replace(path)
    for old in _newest_first(checkpoints)[KEPT:]:
        old.unlink(missing_ok=True)
    return WorkspaceCheckpoint(path, count, tuple(left_out))


def restore_workspace(workspace: Path, checkpoints: Path) -> Path | None:
    """Restores the newest whole checkpoint into a workspace without files. Returns it, None if nothing was restored.

    A workspace that holds files is newer than every checkpoint and stays as it is. Raises OSError, for example of a
    full disk: an older checkpoint would take the place of the newest.
    """
    for interrupted in workspace.glob(f"{_STAGED}*"):
        shutil.rmtree(interrupted)
    if next(_entries(workspace), None) is not None:
        return None
    return next((each for each in _newest_first(checkpoints) if _extract(each, workspace)), None)


def newest_change(workspace: Path, now: float, skipped: Collection[Path] = ()) -> float:
    """Returns the time of the last change of any file in seconds since the epoch, 0 without files.

    A time after `now` is that of an archive or of another clock, and no change. `skipped`: as of `save_workspace`.
    """
    times = map(_modified, _entries(workspace, skipped))
    return max((time for time in times if time <= now), default=0.0)


def _write(archive: Path, workspace: Path, skipped: Collection[Path]) -> tuple[int, list[str]]:
    """Writes an archive. Returns the number of its files, and the names of those that it lacks. Raises OSError."""
    count, left_out = 0, []
    with archive.open("wb") as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as content:
        for each in _entries(workspace, skipped):
            name = str(each.relative_to(workspace))
            if _add(content, each, name, archive.parent):
                count += 1
            else:
                left_out.append(name)
    _sync(archive)
    return count, left_out


def _add(archive: tarfile.TarFile, path: Path, name: str, scratch: Path) -> bool:
    """Adds a regular file; False for others and for one that cannot be read. Raises OSError.

    A copy is made first: a file that is written meanwhile, or cannot be read to its end, would damage the archive.
    """
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    except OSError:
        return False
    with file, tempfile.SpooledTemporaryFile(_BLOCK_BYTES, dir=str(scratch)) as copy:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE_BYTES:
            return False
        while copy.tell() < found.st_size:
            try:
                block = file.read(min(_BLOCK_BYTES, found.st_size - copy.tell()))
            except OSError:
                return False
            if not block:
                break
            copy.write(block)
        entry = archive.gettarinfo(arcname=name, fileobj=file)
        entry.size = copy.tell()
        copy.seek(0)
        archive.addfile(entry, copy)
    return True


def _extract(archive: Path, workspace: Path) -> bool:
    """Unpacks an archive into a workspace; False if it is damaged or leads outside of it. Raises OSError."""
    staged = Path(tempfile.mkdtemp(prefix=_STAGED, dir=workspace))
    try:
        with gzip.open(archive) as content:
            while content.read(_BLOCK_BYTES):
                pass  # to its end, where the checksum of the content is
        with tarfile.open(archive, "r:gz") as file:
            file.extractall(staged, filter="data")
        for each in staged.iterdir():
            target = workspace / each.name
            if target.is_dir():
                shutil.rmtree(target)
            each.replace(target)
    except _DAMAGES:
        return False
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return True


def _entries(workspace: Path, skipped: Collection[Path] = ()) -> Iterator[Path]:
    """Yields the files of a workspace, and links to folders, in a stable order."""
    unwanted = {path.resolve() for path in skipped}
    for folder, folders, files in os.walk(workspace):
        inner = [Path(folder, name) for name in sorted(set(folders) - _SKIPPED_FOLDERS)]
        links = [each for each in inner if each.is_symlink()]
        folders[:] = [each.name for each in inner if not unwanted or each.resolve() not in unwanted]
        yield from links
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
