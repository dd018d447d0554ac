"""Storage that stops working during training: failures are reported and retried, and end the run only at last."""

from __future__ import annotations

from pathlib import Path

from failing_storage_loop import trained
from forked_ranks import ranks

from windlass import wire
from windlass.train.checkpoint.store.inventory import CheckpointStatus, list_checkpoints
from windlass.train.checkpoint.store.storage import open_storage


def saved(place: Path) -> list[int | None]:
    return [each.step for each in list_checkpoints(open_storage(str(place))) if each.state is CheckpointStatus.COMPLETE]


def test_storage_that_fails_for_a_while_costs_checkpoints_but_no_training(tmp_path: Path):
    place = tmp_path / "run"
    first, other = ranks(2, trained, str(place), 12, {"broken": [*range(3, 8)]})
    assert (first["code"], first["steps"]) == (0, 12), first["err"]
    assert other == {"code": 0, "err": "", "steps": 12}
    assert saved(place)[0] == 12
    assert f"the checkpoint of step 4 could not be saved: rank 0: {place}: " in first["err"]
    assert "training continues: the newest good checkpoint is of step 2; the next try is in 0 s" in first["err"]
    assert "before it had failed" in first["err"]


def test_storage_that_keeps_failing_ends_the_run_and_the_last_good_checkpoint_stays(tmp_path: Path):
    place = tmp_path / "run"
    first, other = ranks(2, trained, str(place), 200, {"broken": [*range(3, 200)]})
    assert first["code"] == other["code"] == wire.RankExitCode.FATAL
    assert 12 <= first["steps"] < 50
    assert "5 saves in a row have failed; the newest good checkpoint is of step 2" in first["err"]
    assert saved(tmp_path / "away") == [2]


def test_a_run_whose_lease_was_taken_ends_at_its_next_save(tmp_path: Path):
    place = tmp_path / "run"
    first, other = ranks(2, trained, str(place), 200, {"broken": [], "intruded": 4})
    assert first["code"] == other["code"] == wire.RankExitCode.FATAL
    assert first["steps"] < 12
    assert "the lease of this run was taken by job other-1, generation 1, process 7 on node-9" in first["err"]
    assert all(step <= 4 for step in saved(place)), "what the other run has taken is left alone"


def test_a_failed_final_save_does_not_look_like_a_clean_exit(tmp_path: Path):
    place = tmp_path / "run"
    first, other = ranks(2, trained, str(place), 200, {"broken": [*range(3, 200)], "asked": 5})
    assert first["code"] == other["code"] == wire.RankExitCode.RETRY
    assert "the final save has failed: " in first["err"]
    assert "the newest good checkpoint is of step 2: 4 steps will be repeated" in first["err"]


def test_storage_that_cannot_be_written_is_refused_before_training(tmp_path: Path):
    (tmp_path / "file").write_text("")
    (alone,) = ranks(1, trained, str(tmp_path / "file/run"), 3, {"broken": []})
    assert (alone["code"], alone["steps"]) == (wire.RankExitCode.FATAL, 0)
    assert "part of its path is a file: use another location" in alone["err"]
