"""Folders of agents: names that other users have made are left alone, and hold up no agent."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from other_user import STRANGER, USER, needs_root, run_as, shared_folder
from windlass.agent.agent_folders import create_replica_folder, create_socket_folder


def _create(root):
    with create_replica_folder(str(root)) as made:
        return made


@needs_root
@pytest.mark.parametrize("kind", ["fifo", "folder", "link"])
def test_a_squatted_name_holds_up_no_agent(tmp_path, kind):
    with shared_folder() as shared:
        squatted = shared / f"windlass-memory-{USER}-x"
        if kind == "link":
            squatted.symlink_to("/proc/self/fd")
        else:
            squatted.mkdir(mode=0o755)
            squatted.chmod(0o777)
            os.mkfifo(squatted / "lock") if kind == "fifo" else (squatted / "lock").write_text("")
        os.chown(squatted, STRANGER, STRANGER, follow_symlinks=False)
        made = run_as(USER, _create, shared)
        assert made.startswith(f"{shared}/windlass-memory-{USER}-")
        assert os.path.lexists(squatted)
        if kind != "link":
            assert os.path.lexists(squatted / "lock")


def test_a_folder_of_a_killed_agent_is_removed_and_one_in_use_is_not(tmp_path):
    left = tmp_path / f"windlass-memory-{os.getuid()}-left"
    left.mkdir()
    (left / "lock").write_text("")
    with create_replica_folder(str(tmp_path)) as used:
        assert not left.exists()
        with create_replica_folder(str(tmp_path)) as other:
            assert Path(used).is_dir()
            assert used != other
    assert not list(tmp_path.iterdir())


def test_a_folder_is_private_and_removed_at_the_end(tmp_path):
    with create_replica_folder(str(tmp_path)) as made:
        Path(made, "copy").write_bytes(b"state")
        assert [str(path) for path in tmp_path.iterdir()] == [made]
        assert Path(made).stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_no_folder_is_made_without_shared_memory(tmp_path):
    with create_replica_folder(str(tmp_path / "nowhere")) as made:
        assert made == ""


def test_a_socket_folder_of_a_killed_agent_is_removed(monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as root:  # short enough for a socket's path
        monkeypatch.setattr(tempfile, "tempdir", root)
        left = Path(root, f"windlass-agent-{os.getuid()}-left")
        left.mkdir()
        (left / "lock").write_text("")
        with create_socket_folder() as used:
            assert not left.exists()
            assert list(Path(root).iterdir()) == [Path(used)]
        assert not list(Path(root).iterdir())
