"""Saves of one rank: time of the copies, retention, and errors in the background."""

from __future__ import annotations

import threading
import time

import pytest
import ranks
import torch

from windlass.train.checkpoint import state_writer
from windlass.train.checkpoint.checkpoint_search import find_newest_good
from windlass.train.checkpoint.rank_group import new_rank_group
from windlass.train.checkpoint.saver import CheckpointSaver
from windlass.train.checkpoint.state_loader import load_state
from windlass.train.checkpoint.store.errors import CheckpointError, StorageError
from windlass.train.checkpoint.store.inventory import CheckpointStatus, list_checkpoints, newest_complete
from windlass.train.checkpoint.store.layout import folder_of
from windlass.train.checkpoint.store.retention import Retention
from windlass.train.checkpoint.store.storage import open_storage

LARGE, SMALL = 1_000_000, 100


@pytest.fixture
def place(tmp_path):
    return open_storage(str(tmp_path / "run"))


@pytest.fixture
def saver(place):
    with CheckpointSaver(place, new_rank_group(), after=None) as made:
        yield made


@pytest.fixture
def slow(monkeypatch):
    """An event that the writer waits for."""
    go, really = threading.Event(), state_writer.save

    def later(*given, **named):
        assert go.wait(ranks.TIMEOUT_S)
        return really(*given, **named)

    monkeypatch.setattr(state_writer, "save", later)
    yield go
    go.set()


def state():
    return {"model": {"large": torch.ones(LARGE), "mean": torch.ones(SMALL), "cache": torch.ones(LARGE)}, "lr": 0.5}


def loaded(place):
    found = find_newest_good(place, new_rank_group())
    target = {"model": {name: torch.zeros_like(value) for name, value in state()["model"].items()}, "lr": 0.0}
    load_state(found, target, new_rank_group())
    return target


def steps(place):
    return [each.step for each in list_checkpoints(place) if each.state is CheckpointStatus.COMPLETE]


def test_changes_after_the_copy_are_not_saved(saver, place, slow):
    live = state()
    saver.save(live, 1)
    saver.wait_until_staged()
    for tensor in live["model"].values():
        tensor.fill_(2.0)
    slow.set()
    saver.wait()
    assert all((tensor == 1).all() for tensor in loaded(place)["model"].values())


def test_small_tensors_and_named_ones_are_copied_before_save_returns(saver, place, slow):
    """A forward pass changes them, such as the running mean of a batch norm."""
    live = state()
    saver.save(live, 1, immediate={"model.cache"})
    live["model"]["mean"].fill_(2.0)
    live["model"]["cache"].fill_(2.0)
    slow.set()
    saver.wait()
    back = loaded(place)["model"]
    assert (back["mean"] == 1).all()
    assert (back["cache"] == 1).all()


def test_memory_of_the_copy_is_reused(saver):
    live, stage = state(), saver._stage
    first = stage.begin({"model.large": live["model"]["large"]}, ()).result()["model.large"].data_ptr()
    again = stage.begin({"model.large": live["model"]["large"]}, ()).result()["model.large"].data_ptr()
    assert first == again != live["model"]["large"].data_ptr()


def test_training_continues_while_a_checkpoint_is_written(saver, place, slow):
    saver.save(state(), 1)
    saver.wait_until_staged()
    assert steps(place) == []
    until = time.monotonic() + 0.05
    while time.monotonic() < until:  # longer than a thread needs to notice the end of a wait
        pass
    slow.set()
    saver.wait()
    assert steps(place) == [1]
    assert saver.cost.duration > saver.cost.stall > 0


def test_the_next_save_waits_for_the_one_in_flight(saver, place):
    for step in range(1, 4):
        saver.save(state(), step)
        assert steps(place) == list(range(step - 1, 0, -1))
    saver.wait()
    assert steps(place) == [3, 2, 1]


def test_a_saved_step_is_not_saved_again(saver, place):
    saver.save(state(), 1, blocking=True)
    cost = saver.cost
    saver.save(state(), 1, blocking=True)
    assert saver.cost is cost


def test_older_checkpoints_are_removed_when_the_new_one_is_good(place):
    with CheckpointSaver(place, new_rank_group(), after=None, keep=Retention(2, every=4)) as saver:
        for step in range(1, 11):
            saver.save(state(), step, blocking=True)
    assert steps(place) == [10, 9, 8, 4, 1]


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ({"facts": {"loss": float("nan")}}, "ValueError: Out of range float values are not JSON compliant"),
        ({"facts": {"optimizer": object()}}, "TypeError: Object of type object is not JSON serializable"),
    ],
)
def test_a_background_error_is_raised_at_the_next_call_and_training_may_continue(saver, place, what, error):
    saver.save(state(), 1, **what)
    with pytest.raises(CheckpointError, match=error):
        saver.save(state(), 2)
    saver.save(state(), 2)
    saver.wait()
    assert steps(place) == [2]
    assert not list(place.path.glob("*.tmp"))


def test_the_same_step_can_be_saved_after_it_failed(saver, place):
    saver.save(state(), 1, facts={"x": object()})
    with pytest.raises(CheckpointError):
        saver.wait()
    saver.save(state(), 1, blocking=True)
    assert steps(place) == [1]


def test_rewinding_removes_later_checkpoints(saver, place):
    for step in (10, 20, 30):
        saver.save(state(), step, blocking=True)
    with pytest.raises(CheckpointError, match="step 11 precedes step 30, which is saved: rewind to 11 first"):
        saver.save(state(), 11)
    saver.rewind_to(10)
    assert steps(place) == [30, 20, 10]
    saver.save(state(), 11, blocking=True)
    assert steps(place) == [11, 10]


def test_a_search_can_be_limited_to_older_checkpoints(saver, place):
    for step in (10, 20, 30):
        saver.save(state(), step, blocking=True)
    assert find_newest_good(place, new_rank_group(), before=29).manifest.step == 20
    assert find_newest_good(place, new_rank_group(), before=9) is None


def test_a_committed_checkpoint_is_good_even_if_cleanup_fails(saver, place, monkeypatch):
    def fails(*_):
        raise ValueError("a name of unknown form")

    monkeypatch.setattr(saver._writer, "_clean_up", fails)
    saver.save(state(), 1, blocking=True)
    assert saver.cost.cleanup_error == "ValueError: a name of unknown form"
    saver.save(state(), 2, blocking=True)
    assert steps(place) == [2, 1]


def test_older_checkpoints_are_removed_on_a_disk_that_takes_nothing_more(place, monkeypatch):
    """Else a disk that one save has filled to the last block stays full, and no later save succeeds."""
    really, is_full = type(place).write, threading.Event()

    def write(self, name, data):
        if is_full.is_set():
            raise StorageError(f"{name}: No space left on device")
        really(self, name, data)

    monkeypatch.setattr(type(place), "write", write)
    with CheckpointSaver(place, new_rank_group(), after=None, keep=Retention(1)) as saver:
        saver.save(state(), 1, blocking=True)
        is_full.set()
        saver.save(state(), 2, blocking=True)
        assert saver.cost.cleanup_error == "LATEST: No space left on device"
        is_full.clear()
    assert steps(place) == [2]


def test_a_checkpoint_that_cannot_be_removed_stops_the_removal_of_no_other(place, monkeypatch):
    with CheckpointSaver(place, new_rank_group(), after=None) as saver:
        for step in (1, 2, 3):
            saver.save(state(), step, blocking=True)
    really = type(place).remove

    def remove(self, name):
        if name == folder_of(1, 1):
            raise StorageError("step 1 cannot be removed")
        really(self, name)

    monkeypatch.setattr(type(place), "remove", remove)
    with CheckpointSaver(place, new_rank_group(), after=3, keep=Retention(1)) as saver:
        saver.save(state(), 4, blocking=True)
        assert saver.cost.cleanup_error == "step 1 cannot be removed"
    assert steps(place) == [4, 1]


def test_an_incomplete_folder_is_not_the_newest_complete_checkpoint(saver, place, tmp_path):
    saver.save(state(), 1, blocking=True)
    (tmp_path / "run" / folder_of(9)).mkdir()
    assert newest_complete(place)[0] == 1
    assert newest_complete(place, 0) == (None, {})
