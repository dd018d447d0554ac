"""A NaN loss, or a loss spike: all ranks return to a checkpoint, and continue after the bad batches."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked_ranks import ranks
from rollback_loop import trained

from windlass import wire

NAN = float("nan")


@pytest.mark.parametrize(("asked", "factor"), [({"not_finite": "rollback"}, NAN), ({"spike": "rollback"}, 100.0)])
def test_a_rollback_skips_the_batches_before_the_bad_step_to_the_bit(asked, factor, tmp_path: Path):
    """The result is equal to the bit to that of a run that stops at the checkpoint and continues after the batches."""
    how = {"asked": asked, "factors": {9: factor}, "rank": 1}
    result = ranks(2, trained, str(tmp_path / "a"), 12, how)
    assert [each["code"] for each in result] == [0, 0]
    assert [result[0]["batches"][step] for step in range(12)] == [0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13]
    assert result[1]["batches"] == result[0]["batches"]
    assert "windlass: step 9: the " in result[0]["err"]
    assert (
        "rolling back from step 10 to the checkpoint of step 8, continuing with sample 120: 2 batches are skipped"
        in (result[0]["err"])
    )
    assert result[1]["err"] == ""

    ranks(2, trained, str(tmp_path / "b"), 8, {"asked": {}})
    other = ranks(2, trained, str(tmp_path / "b"), 12, {"asked": {}, "from": 120})
    assert [each["sum"] for each in other] == [each["sum"] for each in result]


def test_a_single_spike_can_be_skipped(tmp_path: Path):
    (result,) = ranks(1, trained, str(tmp_path), 12, {"asked": {"spike": "skip"}, "factors": {9: 100.0}})
    assert result["code"] == 0
    assert list(result["batches"].values()) == list(range(12))
    assert "step 9 is skipped: the loss of 4" in result["err"]


def test_a_spike_ends_a_run_with_the_stop_policy(tmp_path: Path):
    (result,) = ranks(1, trained, str(tmp_path), 12, {"asked": {"spike": "stop"}, "factors": {9: 100.0}})
    assert result["code"] == wire.RankExitCode.FATAL
    assert 'spike="skip" for single bad batches, or "rollback"' in result["err"]


def test_bad_steps_after_every_rollback_end_the_run(tmp_path: Path):
    how = {"asked": {"not_finite": "rollback"}, "factors": dict.fromkeys(range(13, 100), NAN)}
    (result,) = ranks(1, trained, str(tmp_path), 30, how)
    assert result["code"] == wire.RankExitCode.FATAL
    assert result["err"].count("rolling back from step") == 3
    assert "to the checkpoint of step 12" in result["err"]
    assert "to the checkpoint of step 8" in result["err"]
    assert "3 rollbacks in a row" in result["err"] or "there is no checkpoint to roll back to" in result["err"]


def test_a_rollback_before_the_first_checkpoint_is_an_error(tmp_path: Path):
    (result,) = ranks(1, trained, str(tmp_path), 9, {"asked": {"not_finite": "rollback"}, "factors": {1: NAN}})
    assert result["code"] == wire.RankExitCode.FATAL
    assert "there is no checkpoint to roll back to" in result["err"]


def test_unknown_policies_are_refused_at_the_start(tmp_path: Path):
    (result,) = ranks(1, trained, str(tmp_path), 9, {"asked": {"spike": "panic"}})
    assert result["code"] == wire.RankExitCode.FATAL
    assert "spike='panic': one of stop, skip, rollback" in result["err"]
