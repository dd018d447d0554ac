"""Checkpoints after killed ranks, flipped bits and full disks: an earlier one is found complete each time."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from datetime import timedelta
from pathlib import Path

import pytest
import ranks
import torch
import training
from torch.distributed import distributed_c10d

from windlass.train.checkpoint.rank_group import run_on_all
from windlass.train.checkpoint.store import lease
from windlass.train.checkpoint.store.inventory import CheckpointStatus, list_checkpoints
from windlass.train.checkpoint.store.layout import CONTROL, MANIFEST, folder_of
from windlass.train.checkpoint.store.storage import open_storage

KILLS = int(os.environ.get("WINDLASS_CHECKPOINT_KILLS", "8"))
"""Kills of ranks that save: more of them, up to MAX_KILLS, if none has interrupted a save."""
MAX_KILLS = 20


@pytest.mark.timeout(300)
def test_the_newest_good_checkpoint_is_loaded_after_a_kill_at_any_instant(tmp_path):
    """KILLS times: two ranks save as fast as they can, one or both are killed; the next two resume from a good one."""
    place, chance = str(tmp_path / "run"), random.Random(7)  # noqa: S311 - a dice
    before = torn = 0
    for attempt in range(max(KILLS, MAX_KILLS)):
        if attempt >= KILLS and torn:
            break
        started = ranks.start(tmp_path / str(attempt), 2, training.train, place, 100_000)
        seen = _a_save_later(Path(place), before)
        time.sleep(chance.uniform(0.0, 0.08))
        for rank in chance.choice([started[:1], started[1:], started]):
            os.kill(rank.pid, signal.SIGKILL)
        ended = ranks.ended(started)
        assert ranks.KILLED in [code for _, code in ended]
        assert all("RankGoneError: another rank is gone: " in output for output, code in ended if code != ranks.KILLED)
        torn += any(name.endswith(".tmp") for name in names_in(place))
        ((after, reports), (again, _)) = ranks.run(tmp_path / f"{attempt}-again", 2, training.resume_only, place)
        assert after == again >= seen > before
        assert reports == []
        before = after
    assert torn, "no save was ever interrupted: the instants are badly chosen"


def _a_save_later(place, before):
    """Wait until a save newer than `before` is committed; return its step."""
    until = time.monotonic() + ranks.TIMEOUT_S
    while time.monotonic() < until:
        if (newest := max((each.step or 0 for each in list_checkpoints(open_storage(str(place)))), default=0)) > before:
            return newest
        time.sleep(0.002)
    raise AssertionError("nothing was saved")


def test_files_of_an_interrupted_save_are_removed_at_the_next_start(tmp_path):
    place = tmp_path / "run"
    ranks.run(tmp_path / "a", 2, training.train, str(place), 3)
    (place / "step-00000009.tmp").mkdir()
    (place / "step-00000009.tmp/__0_0.distcp").write_bytes(b"half")
    ranks.run(tmp_path / "b", 2, training.train, str(place), 4)
    assert names_in(place) == [CONTROL, "LATEST", folder_of(3, 1), folder_of(4, 2)]
    assert (place / "LATEST").read_text() == "step-00000004.lease2\n"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Three checkpoints, all kept."""
    folder = tmp_path_factory.mktemp("saved")
    ranks.run(folder / "ranks", 2, training.train, str(folder / "run"), 3, 5)
    return folder / "run"


def test_a_flipped_bit_in_any_file_is_detected_and_the_older_checkpoint_is_used(tmp_path, saved):
    chance, names = random.Random(3), names_in(saved / folder_of(3, 1))  # noqa: S311 - a dice
    assert names == [".metadata", "__0_0.distcp", "__1_0.distcp", MANIFEST, "rng-0.json", "rng-1.json"]
    for name in names:
        place = tmp_path / name
        subprocess.run(["cp", "-r", saved, place], check=True)
        _flip(place / folder_of(3, 1) / name, chance)
        _flip(place / folder_of(2, 1) / name, chance)
        (step, reports), (also, _) = ranks.run(tmp_path / f"{name}-ranks", 2, training.resume_only, str(place))
        assert step == also == 1
        assert [line.split(": ")[:2] for line in reports] == [
            [str(place), f"skipping {folder_of(3, 1)}"],
            [str(place), f"skipping {folder_of(2, 1)}"],
        ]
        assert all(line.split(": ")[2].startswith(name) for line in reports)


def names_in(folder):
    return sorted(entry.name for entry in Path(folder).iterdir())


def _flip(file, chance):
    data = bytearray(file.read_bytes())
    bit = chance.randrange(len(data) * 8)
    data[bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)


def test_training_resumes_before_a_damaged_checkpoint_and_replaces_it(tmp_path, saved):
    place = tmp_path / "run"
    subprocess.run(["cp", "-r", saved, place], check=True)
    (place / folder_of(3, 1) / "__1_0.distcp").unlink()
    ((begun, reports), _) = ranks.run(tmp_path / "ranks", 2, training.train, str(place), 4, 5)
    assert begun == 2
    assert reports == [f"{place}: skipping step-00000003.lease1: __1_0.distcp is missing"]
    assert [(each.step, each.state) for each in list_checkpoints(open_storage(str(place)))] == [
        (step, CheckpointStatus.COMPLETE) for step in (4, 3, 2, 1)
    ]


def test_damage_of_all_checkpoints_is_an_error_on_every_rank(tmp_path, saved):
    place = tmp_path / "run"
    subprocess.run(["cp", "-r", saved, place], check=True)
    for step in (1, 2, 3):
        (place / folder_of(step, 1) / "__0_0.distcp").write_bytes(b"")
    ended = ranks.ended(ranks.start(tmp_path / "ranks", 2, training.train, str(place), 4))
    for output, code in ended:
        assert code == 1
        assert f"{place}: there is no complete checkpoint" in output
        assert "step-00000001.lease1: __0_0.distcp has 0 bytes, and" in output


def test_a_run_without_a_loaded_checkpoint_does_not_overwrite_another_run(tmp_path, saved):
    ended = ranks.ended(ranks.start(tmp_path / "ranks", 2, _save_without_loading, str(saved)))
    assert all("has checkpoints up to step 3, and none of them was loaded" in output for output, _ in ended)
    assert [each.step for each in list_checkpoints(open_storage(str(saved)))] == [3, 2, 1]


def _save_without_loading(_rank, place):
    training.CheckpointSaver(open_storage(place), training.new_rank_group(), after=None)


def test_a_save_that_is_slow_on_one_rank_outlasts_the_timeout_of_torch(tmp_path):
    assert ranks.run(tmp_path / "ranks", 2, _wait_for_the_slow_rank) == [[0, 1], [0, 1]]


def _wait_for_the_slow_rank(rank):
    distributed_c10d.default_pg_timeout = timedelta(seconds=1)
    everybody = training.new_rank_group()
    return run_on_all(everybody, lambda: time.sleep(2 * rank) or rank)


def test_buffers_that_differ_by_rank_are_saved_from_the_first_rank(tmp_path):
    """Such as running means: under DDP the first rank's are used by all ranks at the next forward pass."""
    assert ranks.run(tmp_path / "ranks", 2, _save_and_load_own_means, str(tmp_path / "run")) == [[0.0] * 4] * 2


def _save_and_load_own_means(rank, place):
    everybody, names = training.new_rank_group(), [f"mean.{number}" for number in range(4)]
    state = {"model": {name: torch.full((8,), float(rank)) for name in names}}
    with training.CheckpointSaver(open_storage(place), everybody, after=None) as saver:
        saver.save(state, 1, immediate=[f"model.{name}" for name in names], blocking=True)
    back = {"model": {name: torch.full((8,), -1.0) for name in names}}
    training.load_state(training.find_newest_good(open_storage(place), everybody), back, everybody)
    return [float(tensor.mean()) for tensor in back["model"].values()]


@pytest.fixture
def small_disk(tmp_path):
    """A filesystem of 3 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root may mount a small filesystem")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_is_one_error_on_all_ranks_and_the_last_good_checkpoint_stays(small_disk, tmp_path):
    place = small_disk / "run"
    ranks.run(tmp_path / "before", 2, training.train, str(place), 2)
    with (small_disk / "ballast").open("wb") as file:
        file.write(bytes(2_300_000))
    ended = ranks.ended(ranks.start(tmp_path / "full", 2, training.train, str(place), 99, 50))
    for output, code in ended:
        assert code == 1
        assert "No space left on device\nit is full: free some space, or keep fewer checkpoints" in output
    assert not [name for name in names_in(place) if name.endswith(".tmp")], "what was half written is not cleaned up"
    (small_disk / "ballast").unlink()
    ((step, reports), _) = ranks.run(tmp_path / "after", 2, training.resume_only, str(place))
    assert step >= 2
    assert reports == []


def test_a_location_that_is_a_file_is_refused_before_training(tmp_path):
    (tmp_path / "file").write_text("")
    ended = ranks.ended(ranks.start(tmp_path / "ranks", 2, training.train, str(tmp_path / "file/run"), 1))
    assert all("Not a directory\npart of its path is a file: use another location" in output for output, _ in ended)


def test_a_folder_that_is_not_shared_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "DURATION_S", 0.1)  # files of other nodes are waited for that long
    ended = ranks.ended(ranks.start(tmp_path / "ranks", 2, _train_at_own, str(tmp_path)))
    assert all("are not visible to rank 0: " in output for output, _ in ended)
    assert all("all nodes must share the folder; or use an object store" in output for output, _ in ended)


def _train_at_own(rank, folder):
    return training.train(rank, f"{folder}/node-{rank}", 1)
