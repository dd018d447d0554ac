"""Checkpoints of a workspace: saved whole, restored into an empty folder, damaged and hostile archives passed over."""

from __future__ import annotations

import errno
import io
import os
import tarfile
import time
from pathlib import Path

import pytest

from windlass.jupyter import workspace_checkpoint
from windlass.jupyter.workspace_checkpoint import KEPT, newest_change, restore_workspace, save_workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "data").mkdir(parents=True)
    (folder / "start.ipynb").write_text("{}")
    (folder / "data/a.txt").write_text("a")
    return folder


def empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_workspace_returns_as_it_was_saved(workspace: Path, tmp_path: Path):
    saved = save_workspace(workspace, tmp_path / "kept", 1000)
    other = empty(tmp_path / "other")
    assert (saved.files, saved.left_out) == (2, ())
    assert restore_workspace(other, tmp_path / "kept") == saved.path
    assert (other / "data/a.txt").read_text() == "a"
    assert sorted(each.name for each in other.iterdir()) == ["data", "start.ipynb"]


def test_a_workspace_with_files_is_not_overwritten(workspace: Path, tmp_path: Path):
    save_workspace(workspace, tmp_path / "kept", 1000)
    (workspace / "start.ipynb").write_text("newer")
    assert restore_workspace(workspace, tmp_path / "kept") is None
    assert (workspace / "start.ipynb").read_text() == "newer"


def test_links_large_files_and_caches_stay_out(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workspace_checkpoint, "MAX_FILE_BYTES", 10)
    (workspace / "weights.bin").write_bytes(b"x" * 11)
    (workspace / "link").symlink_to("/etc/passwd")
    (workspace / "__pycache__").mkdir()
    (workspace / "__pycache__/a.pyc").write_text("x")
    saved = save_workspace(workspace, tmp_path / "kept", 1000)
    assert (saved.files, saved.left_out) == (2, ("link", "weights.bin"))


def test_the_newest_checkpoints_are_kept(workspace: Path, tmp_path: Path):
    for number in range(KEPT + 2):
        save_workspace(workspace, tmp_path / "kept", number)
    assert [each.name for each in sorted((tmp_path / "kept").iterdir())] == [f"{n:013d}.tar.gz" for n in (2, 3, 4)]


def test_a_damaged_checkpoint_gives_way_to_the_one_before(workspace: Path, tmp_path: Path):
    before = save_workspace(workspace, tmp_path / "kept", 1000)
    damaged = save_workspace(workspace, tmp_path / "kept", 2000)
    damaged.path.write_bytes(damaged.path.read_bytes()[:-20])
    other = empty(tmp_path / "other")
    assert restore_workspace(other, tmp_path / "kept") == before.path
    assert (other / "data/a.txt").read_text() == "a"


def test_an_archive_that_leads_outside_restores_nothing(tmp_path: Path):
    (tmp_path / "kept").mkdir()
    with tarfile.open(tmp_path / "kept/0000000001000.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("../stolen")
        entry.size = 1
        archive.addfile(entry, io.BytesIO(b"x"))
    other = empty(tmp_path / "other")
    assert restore_workspace(other, tmp_path / "kept") is None
    assert list(other.iterdir()) == []
    assert not (tmp_path / "stolen").exists()


def full_disk(*_args: object, **_more: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_restores_no_older_checkpoint_and_leaves_the_workspace_empty(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for number in (1000, 2000):
        save_workspace(workspace, tmp_path / "kept", number)
    other = empty(tmp_path / "other")
    with monkeypatch.context() as patched:
        patched.setattr(tarfile.TarFile, "extractall", full_disk)
        with pytest.raises(OSError, match="No space left"):
            restore_workspace(other, tmp_path / "kept")
    assert list(other.iterdir()) == []
    assert restore_workspace(other, tmp_path / "kept") == tmp_path / "kept/0000000002000.tar.gz"


def test_folders_beside_the_workspace_are_left_alone(workspace: Path, tmp_path: Path):
    save_workspace(workspace, tmp_path / "kept", 1000)
    other = empty(tmp_path / "other")
    empty(tmp_path / "other.partial").joinpath("mine").write_text("mine")
    restore_workspace(other, tmp_path / "kept")
    assert (tmp_path / "other.partial/mine").read_text() == "mine"
    assert sorted(each.name for each in other.iterdir()) == ["data", "start.ipynb"]


def test_a_workspace_above_the_state_saves_neither_it_nor_its_checkpoints(workspace: Path):
    state = workspace / "state"
    for number in range(3):
        saved = save_workspace(workspace, state / "notebooks/lab/checkpoints", number, [state])
        (state / "token").write_text("secret")
    assert (saved.files, saved.left_out) == (2, ())
    within = save_workspace(workspace, workspace / "kept", 1000, [state])
    assert save_workspace(workspace, workspace / "kept", 2000, [state]).files == within.files == 2


def test_an_interrupted_save_leaves_nothing(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    empty(tmp_path / "kept").joinpath("0000000000001.tar.partial").write_text("of a killed save")
    with monkeypatch.context() as patched:
        patched.setattr(tarfile.TarFile, "addfile", full_disk)
        with pytest.raises(OSError, match="No space left"):
            save_workspace(workspace, tmp_path / "kept", 1000)
    assert list((tmp_path / "kept").iterdir()) == []


def test_files_that_cannot_be_saved_are_named_and_the_rest_is_saved(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (workspace / "linked").symlink_to(empty(tmp_path / "elsewhere"))
    os.mkfifo(workspace / "pipe")
    (workspace / "shrinks.txt").write_text("long text")
    fstat = os.fstat

    def of_a_file_that_shrinks(descriptor: int) -> os.stat_result:
        found = list(fstat(descriptor))
        found[6] += 5  # st_size
        return os.stat_result(found)

    monkeypatch.setattr(workspace_checkpoint.os, "fstat", of_a_file_that_shrinks)
    saved = save_workspace(workspace, tmp_path / "kept", 1000)
    monkeypatch.undo()
    assert (saved.files, saved.left_out) == (3, ("linked", "pipe"))
    other = empty(tmp_path / "other")
    assert restore_workspace(other, tmp_path / "kept") == saved.path
    assert (other / "shrinks.txt").read_text() == "long text"


def test_the_newest_change_is_that_of_any_file(workspace: Path, tmp_path: Path):
    now = time.time()
    for name, age in (("start.ipynb", 50), ("data/a.txt", 20)):
        os.utime(workspace / name, (now, now - age))
    assert newest_change(workspace, now) == pytest.approx(now - 20)
    assert newest_change(empty(tmp_path / "other"), now) == 0


def test_a_time_in_the_future_is_no_change(workspace: Path):
    now = time.time()
    for name, age in (("start.ipynb", 50), ("data/a.txt", -3600)):
        os.utime(workspace / name, (now, now - age))
    assert newest_change(workspace, now) == pytest.approx(now - 50)


def test_files_of_the_state_folder_are_no_changes_of_the_workspace(workspace: Path):
    now = time.time()
    (workspace / "state").mkdir()
    (workspace / "state/journal").write_text("a")
    for name, age in (("start.ipynb", 50), ("data/a.txt", 30), ("state/journal", 1)):
        os.utime(workspace / name, (now, now - age))
    assert newest_change(workspace, now, [workspace / "state"]) == pytest.approx(now - 30)
