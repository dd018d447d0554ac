"""State folders: other users of the machine can neither read nor replace them."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from pathlib import Path

import pytest

from other_user import STRANGER, USER, needs_root, run_as, shared_folder
from windlass.backends.errors import BackendError
from windlass.backends.local import folder_access
from windlass.backends.local.folder_access import check_access
from windlass.backends.local.paths import StatePaths, prepare_folder, state_id
from windlass.backends.local.state_reader import StateReader
from windlass.backends.local.state_store import open_store


@pytest.fixture
def shared():
    with shared_folder() as folder:
        yield folder


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.usefixtures("open_umask")
def test_every_folder_and_file_that_windlass_makes_is_closed(tmp_path):
    paths = prepare_folder(tmp_path / "a/b/state")
    state_id(paths)
    with closing(open_store(paths)) as store:
        store._connection.execute("INSERT INTO meta (key, value) VALUES ('secret', 'TOKEN')")
        modes = {file.name: _mode(file) for file in paths.root.iterdir()}
    assert modes == dict.fromkeys(("commits", "id", "windlass.db", "windlass.db-wal", "windlass.db-shm"), 0o600)
    assert [_mode(folder) for folder in (paths.root, *paths.root.parents[:2])] == [0o700] * 3


@pytest.mark.usefixtures("open_umask")
def test_files_of_an_earlier_version_are_closed(tmp_path):
    paths = prepare_folder(tmp_path / "state")
    with closing(open_store(paths)):
        for file in paths.root.glob("windlass.db*"):
            file.chmod(0o644)
        with closing(open_store(paths)):
            assert {_mode(file) for file in paths.root.glob("windlass.db*")} == {0o600}


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o704, 0o701, 0o777, 0o1777])
def test_a_folder_open_to_others_is_refused_with_the_fix(tmp_path, mode):
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(mode)
    expected = (
        rf"^state folder {state}: other users can open it \(mode {mode:04o}\): chmod 700 {state}, or name another"
    )
    with pytest.raises(BackendError, match=expected):
        prepare_folder(state)
    state.chmod(0o700)
    prepare_folder(state)


def test_the_records_of_an_open_folder_are_not_read(tmp_path):
    paths = prepare_folder(tmp_path / "state")
    open_store(paths).close()
    paths.root.chmod(0o755)
    with pytest.raises(BackendError, match="chmod 700"):
        StateReader.open(paths)


@pytest.mark.parametrize(("mode", "refused"), [(0o777, True), (0o775, True), (0o1777, False), (0o755, False)])
def test_a_folder_that_others_can_replace_is_refused(tmp_path, monkeypatch, mode, refused):
    monkeypatch.setattr(folder_access, "_is_own_group", lambda _gid: False)
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(mode)
    if refused:
        with pytest.raises(BackendError, match=f"other users can write to {above} .*: chmod go-w {above}, or name"):
            prepare_folder(above / "state")
    else:
        prepare_folder(above / "state")


def test_the_users_own_group_may_write_above(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_access, "_is_own_group", lambda gid: gid == os.getgid())
    (tmp_path / "above").mkdir()
    (tmp_path / "above").chmod(0o775)
    prepare_folder(tmp_path / "above/state")


@needs_root
def test_a_folder_of_another_user_is_refused(shared):
    state = shared / "state"
    state.mkdir(mode=0o700)
    os.chown(state, STRANGER, STRANGER)
    for uid in (os.getuid(), USER):
        with pytest.raises(BackendError, match=rf"it belongs to another user \(uid {STRANGER}\)"):
            run_as(uid, check_access, state)
    run_as(STRANGER, check_access, state)


@needs_root
def test_a_folder_of_root_is_refused(shared):
    (shared / "state").mkdir(mode=0o755)
    with pytest.raises(BackendError, match=r"it belongs to another user \(uid 0\)"):
        run_as(USER, prepare_folder, shared / "state")


@needs_root
def test_a_link_of_another_user_is_refused(shared):
    mine, link = shared / "mine", shared / "link"
    mine.mkdir(mode=0o700)
    os.chown(mine, USER, USER)
    link.symlink_to(mine)
    for owner, refused in ((STRANGER, True), (USER, False), (0, False)):
        os.chown(link, owner, owner, follow_symlinks=False)
        for path in (link, link / "state"):
            if refused:
                with pytest.raises(BackendError, match=rf"{link} is a link of another user \(uid {STRANGER}\)"):
                    run_as(USER, prepare_folder, path)
            else:
                run_as(USER, prepare_folder, path)


@needs_root
def test_a_folder_below_the_folder_of_another_user_is_refused(shared):
    above = shared / "above"
    (above / "state").mkdir(parents=True)
    os.chown(above, STRANGER, STRANGER)
    os.chown(above / "state", USER, USER)
    (above / "state").chmod(0o700)
    with pytest.raises(BackendError, match=rf"{above} above it belongs to another user \(uid {STRANGER}\)"):
        run_as(USER, prepare_folder, above / "state")


@needs_root
def test_another_user_reads_nothing_of_the_write_ahead_log(shared):
    (shared / "home").mkdir()
    os.chown(shared / "home", USER, USER)
    paths = StatePaths(shared / "home/state")
    run_as(USER, lambda: open_store(prepare_folder(paths.root)) and None)
    for name in ("windlass.db", "windlass.db-wal"):
        with pytest.raises(PermissionError):
            run_as(STRANGER, (paths.root / name).read_bytes)
