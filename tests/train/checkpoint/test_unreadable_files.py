"""Files that cannot be read at the moment: no damage, so no run goes back to an older checkpoint and removes these."""

from __future__ import annotations

import errno
import os

import pytest
import ranks
import training

from windlass.train.checkpoint.checkpoint_search import find_newest_good
from windlass.train.checkpoint.rank_group import new_rank_group
from windlass.train.checkpoint.store import lease
from windlass.train.checkpoint.store.errors import (
    NewerFormatError,
    StorageError,
    StorageUnusableError,
    is_retryable,
)
from windlass.train.checkpoint.store.inventory import newest_complete, prunable_checkpoints
from windlass.train.checkpoint.store.layout import MANIFEST, folder_of
from windlass.train.checkpoint.store.retention import Retention
from windlass.train.checkpoint.store.storage import open_storage


@pytest.fixture
def place(tmp_path):
    """Two checkpoints."""
    storage = open_storage(str(tmp_path / "run"))
    with training.saver_of_generation(storage, 1, None) as saver:
        for step in (10, 20):
            saver.save(training.state_at(0, step), step, blocking=True)
    return storage


def refuse_reads(monkeypatch, place, code):
    """Every file of the newest checkpoint but its manifest fails with this error."""
    really = type(place).open

    def refuse(self, name):
        if name.startswith(folder_of(20, 1)):
            raise OSError(code, os.strerror(code))
        return really(self, name)

    monkeypatch.setattr(type(place), "open", refuse)


@pytest.mark.parametrize("code", [errno.EACCES, errno.ESTALE, errno.EMFILE, errno.ENOMEM, errno.EIO])
def test_a_file_that_cannot_be_read_ends_the_search_instead_of_an_older_checkpoint(monkeypatch, place, code):
    refuse_reads(monkeypatch, place, code)
    messages = []
    with pytest.raises(StorageError, match=os.strerror(code)) as error:
        find_newest_good(place, new_rank_group(), report=messages.append)
    assert messages == []
    assert isinstance(error.value, StorageUnusableError) == (code == errno.EACCES), "only a person grants permissions"


@pytest.mark.parametrize("code", [errno.EISDIR, errno.ELOOP])
def test_a_file_that_is_no_file_any_more_is_damage(monkeypatch, place, code):
    refuse_reads(monkeypatch, place, code)
    messages = []
    assert find_newest_good(place, new_rank_group(), report=messages.append).manifest.step == 10
    assert os.strerror(code) in messages[0]


def test_a_checkpoint_of_a_newer_format_is_neither_passed_over_nor_pruned(place):
    """After a return to an older Windlass: the run would go back, and remove what the newer one has saved."""
    name = f"{folder_of(20, 1)}/{MANIFEST}"
    place.write(name, place.read(name).replace(b'"windlass": 1', b'"windlass": 2'))
    for look in (
        lambda: find_newest_good(place, new_rank_group()),
        lambda: newest_complete(place),
        lambda: prunable_checkpoints(place, Retention(1)),
    ):
        with pytest.raises(NewerFormatError, match="has format 2, and this Windlass reads 1: use a newer one") as error:
            look()
        assert not is_retryable(error.value)
        assert folder_of(20, 1) in str(error.value)


def resume_on_a_slow_mount(rank, location, reads):
    """Resume as a rank whose node, but for that of rank 0, sees the newest checkpoint only at the n-th look."""
    storage = open_storage(location)
    if rank:
        really_open, really_read, looks = type(storage).open, type(storage).read, []

        def read(self, name):
            if name == f"{folder_of(20, 1)}/{MANIFEST}":
                looks.append(name)
                return really_read(self, name) if len(looks) >= reads else None
            return really_read(self, name)

        def open_file(self, name):
            if name.startswith(folder_of(20, 1)) and len(looks) < reads:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            return really_open(self, name)

        type(storage).read, type(storage).open = read, open_file
    messages = []
    found = find_newest_good(storage, new_rank_group(), report=messages.append)
    return found.manifest.step, messages


def test_a_rank_waits_for_a_checkpoint_that_its_node_does_not_show_yet(tmp_path, place):
    ended = ranks.run(tmp_path / "ranks", 2, resume_on_a_slow_mount, place.location, 2)
    assert ended == [(20, []), (20, [])]


def test_a_checkpoint_that_one_node_never_shows_is_not_passed_over(tmp_path, monkeypatch, place):
    monkeypatch.setattr(lease, "DURATION_S", 0.1)
    for output, code in ranks.ended(ranks.start(tmp_path / "ranks", 2, resume_on_a_slow_mount, place.location, 99)):
        assert code == 1
        assert f"{folder_of(20, 1)} is not visible to rank 1 within 0 s\nall nodes must share the folder" in output
