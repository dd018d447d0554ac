import fcntl
import os
from pathlib import Path

from windlass.agent import replica_memory


def test_the_folder_is_removed_at_the_end(tmp_path):
    with replica_memory.create_folder(str(tmp_path)) as made:
        Path(made, "copy").write_bytes(b"state")
        assert [str(path) for path in tmp_path.iterdir()] == [made]
        assert Path(made).stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_agent_is_removed_and_one_in_use_is_not(tmp_path):
    left, held = (tmp_path / f"windlass-memory-{os.getuid()}-{name}" for name in ("left", "held"))
    for each in (left, held):
        each.mkdir()
        (each / "lock").touch()
    with (held / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with replica_memory.create_folder(str(tmp_path)) as made:
            assert sorted(tmp_path.iterdir()) == sorted([Path(made), held])


def test_no_folder_is_made_without_shared_memory(tmp_path):
    with replica_memory.create_folder(str(tmp_path / "nowhere")) as made:
        assert made == ""
