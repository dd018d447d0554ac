"""Staging directories of object stores: other users of the machine cannot take, read or block them."""

from __future__ import annotations

import os
import stat
import zlib
from pathlib import Path

import pytest

from other_user import STRANGER, USER, needs_root, run_as, shared_folder
from windlass.train.checkpoint.store.object_storage import ObjectStorage

LOCATION = "s3://bucket/run"


@pytest.fixture
def storage():
    return ObjectStorage(LOCATION, None, "bucket/run")


@pytest.fixture
def scratch(monkeypatch):
    with shared_folder() as folder:
        monkeypatch.setenv("WINDLASS_SCRATCH", str(folder))
        yield folder


def _stage(storage: ObjectStorage) -> tuple[str, int, int]:
    """Writes a file into the staging directory; returns it with owner and mode of the folder above."""
    staging = storage.staging_directory("step-1", 0)
    (staging / "file").write_text("weights")
    above = os.lstat(staging.parent)
    return str(staging), above.st_uid, stat.S_IMODE(above.st_mode)


def _is_free_of_strangers(scratch: Path, staged: tuple[str, int, int], uid: int) -> bool:
    path, owner, mode = staged
    return Path(path).is_relative_to(scratch) and owner == uid and mode == 0o700


@needs_root
@pytest.mark.parametrize("kind", ["folder", "open-folder", "link", "file"])
def test_a_squatted_name_stops_no_save(scratch, storage, tmp_path, kind):
    old = f"windlass-{USER}-{zlib.crc32(LOCATION.encode()):08x}-0"
    for name in (old, f"windlass-{USER}"):
        squatted = scratch / name
        if kind == "link":
            squatted.symlink_to(tmp_path)
        elif kind == "file":
            squatted.write_text("")
        else:
            squatted.mkdir()
            squatted.chmod(0o777 if kind == "open-folder" else 0o755)
        os.chown(squatted, STRANGER, STRANGER, follow_symlinks=False)

    staged = run_as(USER, _stage, storage)

    assert _is_free_of_strangers(scratch, staged, USER)
    assert not (scratch / old / "file").exists()
    assert not list(tmp_path.iterdir())


@needs_root
def test_other_users_cannot_read_staged_files(scratch, storage):
    path, _, _ = run_as(USER, _stage, storage)
    with pytest.raises(PermissionError):
        run_as(STRANGER, (Path(path) / "file").read_text)


def test_the_leftovers_of_a_killed_process_are_removed(scratch, storage):
    first, owner, mode = _stage(storage)
    second, _, _ = _stage(storage)
    assert first == second
    assert (owner, mode) == (os.getuid(), 0o700)
    assert storage.staging_directory("step-2", 0) == Path(second)
    assert not list(Path(second).iterdir())


def test_a_folder_that_is_open_to_others_is_closed(scratch, storage):
    above = scratch / f"windlass-{os.getuid()}"
    above.mkdir()
    above.chmod(0o777)
    assert _stage(storage)[1:] == (os.getuid(), 0o700)


def test_the_umask_opens_no_folder(scratch, storage):
    before = os.umask(0)
    try:
        assert _stage(storage)[2] == 0o700
    finally:
        os.umask(before)


def test_nothing_stays_after_a_save(scratch, storage):
    staging = storage.staging_directory("step-1", 0)
    other = storage.staging_directory("step-1", 1)
    storage.release_staging(staging)
    assert other.is_dir()
    storage.release_staging(other)
    assert not list(scratch.iterdir())
