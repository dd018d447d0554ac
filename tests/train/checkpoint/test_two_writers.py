"""Two writers of one place, and a reader beside a writer: neither loses what the other has written or reads."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
import ranks
import training

from windlass.train.checkpoint.checkpoint_search import read_newest_good
from windlass.train.checkpoint.rank_group import new_rank_group
from windlass.train.checkpoint.saver import CheckpointSaver
from windlass.train.checkpoint.store.errors import LeaseLostError
from windlass.train.checkpoint.store.inventory import CheckpointStatus, list_checkpoints
from windlass.train.checkpoint.store.layout import CONTROL, folder_of
from windlass.train.checkpoint.store.storage import open_storage
from windlass.train.checkpoint.store.verification import verify_files


def complete(storage):
    """Return the folders of all checkpoints whose every byte is as it was written."""
    found = [each for each in list_checkpoints(storage) if each.state is CheckpointStatus.COMPLETE]
    return [each.folder for each in found if not verify_files(storage, each.folder, each.manifest, each.manifest.files)]


def check_refusal_of_a_second_run(folder, place):
    """One run holds the place; a second one is refused, and the first one continues undisturbed."""
    pause = folder / "pause"
    first = ranks.start(folder / "a", 2, training.hold_lease, place, str(pause))
    until = time.monotonic() + ranks.TIMEOUT_S
    while not Path(f"{pause}.ready").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    for output, code in ranks.ended(ranks.start(folder / "b", 2, training.train, place, 9)):
        assert code == 1
        assert f"LeaseHeldError: rank 0: {place} is in use by another run: process {first[0].pid} on " in output
        assert "end that run, or use another location for this one" in output
    pause.touch()
    assert [step for step, _ in ranks.ended(first, fail=True)] == [2, 2]
    assert complete(open_storage(place)) == [folder_of(2, 1), folder_of(1, 1)]


def check_late_commit(storage, monkeypatch):
    """A commit of a dead generation neither replaces nor removes anything of the next one."""
    old, new = training.commit_late(storage, monkeypatch)
    kept = [folder_of(20, 2), folder_of(15, 2), folder_of(10, 1)]
    assert complete(storage) == kept
    assert storage.read("LATEST") == f"{folder_of(20, 2)}\n".encode()
    with pytest.raises(LeaseLostError, match="was taken by job digits-1, generation 2, process 7 on node-2"):
        old.save(training.state_at(0, 30), 30, blocking=True)
    assert complete(storage) == kept
    assert training.resumed(0, str(storage.location), new_rank_group(), []) == 20
    new.save(training.state_at(0, 25), 25, blocking=True)
    assert complete(storage) == [folder_of(25, 2), folder_of(20, 2), folder_of(15, 2)]
    old.close()
    new.close()


def test_a_second_run_at_the_same_place_is_refused(tmp_path):
    check_refusal_of_a_second_run(tmp_path, str(tmp_path / "run"))


def test_a_late_commit_of_a_dead_generation_damages_nothing(tmp_path, monkeypatch):
    check_late_commit(open_storage(str(tmp_path / "run")), monkeypatch)


def test_a_run_that_has_lost_its_lease_before_its_first_save_removes_nothing_of_the_next_one(tmp_path):
    """As a run that was suspended while it loaded. An unfinished folder may be committed at any moment."""
    storage = open_storage(str(tmp_path / "run"))
    old = training.lease_of_generation(storage, 1)
    new = training.lease_of_generation(storage, 2)
    unfinished = tmp_path / "run" / f"{folder_of(20, 2)}.tmp"
    unfinished.mkdir()
    with pytest.raises(LeaseLostError, match="was taken by job digits-1, generation 2"):
        CheckpointSaver(storage, new_rank_group(), after=None, lease=old)
    assert unfinished.exists()
    old.abandon()
    new.abandon()


def test_checkpoints_that_were_copied_without_their_leases_are_continued(tmp_path):
    """As by `cp -r run/* copy/`, which leaves out names with a dot: else every start goes back to the copied ones."""
    storage = open_storage(str(tmp_path / "run"))
    for generation in (1, 2, 3):
        train_on(storage, generation)
    shutil.rmtree(tmp_path / "run" / CONTROL)
    train_on(storage, 4)
    assert complete(storage)[0] == folder_of(40, 4)
    train_on(storage, 5)
    assert complete(storage) == [folder_of(50, 5), folder_of(40, 4), folder_of(30, 3)]


def train_on(storage, generation):
    """Resume, and save ten steps later."""
    begun = training.resumed(0, storage.location, new_rank_group(), [])
    with training.saver_of_generation(storage, generation, begun) as saver:
        saver.save(training.state_at(0, (begun or 0) + 10), (begun or 0) + 10, blocking=True)
        saver._lease.release()


def test_a_checkpoint_that_is_loaded_is_not_removed_meanwhile(tmp_path):
    storage = open_storage(str(tmp_path / "run"))
    saver = training.saver_of_generation(storage, 1, None, keep=1)
    saver.save(training.state_at(0, 10), 10, blocking=True)
    with read_newest_good(storage, new_rank_group()) as found:
        saver.save(training.state_at(0, 20), 20, blocking=True)
        assert complete(storage) == [folder_of(20, 1), found.folder]
        state = training.state_at(0, 0)
        training.load_state(found, state, new_rank_group())
        assert state["step"] == 10
    saver.save(training.state_at(0, 30), 30, blocking=True)
    assert complete(storage) == [folder_of(30, 1)]
    saver.close()


def test_a_checkpoint_that_is_removed_before_it_is_read_is_passed_over(tmp_path, monkeypatch):
    storage = open_storage(str(tmp_path / "run"))
    with training.saver_of_generation(storage, 1, None) as saver:
        for step in (10, 20):
            saver.save(training.state_at(0, step), step, blocking=True)
    really = type(storage).create

    def create(self, name, data):
        if name.startswith(".windlass/reading-step-00000020"):
            self.remove(folder_of(20, 1))
        return really(self, name, data)

    monkeypatch.setattr(type(storage), "create", create)
    assert training.resumed(0, str(storage.location), new_rank_group(), []) == 10
