"""Checkpoints of a workspace: saved whole, restored into an empty folder, damaged and hostile archives passed over."""

from __future__ import annotations

import io
import tarfile
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


def test_the_newest_change_is_that_of_any_file(workspace: Path, tmp_path: Path):
    assert newest_change(workspace) == (workspace / "data/a.txt").stat().st_mtime
    assert newest_change(empty(tmp_path / "other")) == 0
