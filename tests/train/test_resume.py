"""An interrupted run resumes without a difference: to the bit on the same mesh, to rounding on others."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from forked_ranks import ranks
from windlass_loops import capture_stdout, run_with_checkpoints

STEPS, CUT = 4, 2
"""Steps of a whole run, and of its first part: the state of the optimizer has an effect after the first step of the
second part."""
SMALL = {"layers": 2}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The result of one process."""
    return ranks(1, run_with_checkpoints, "", str(tmp_path_factory.mktemp("alone")), STEPS, SMALL)[0]


def whole(results):
    """The samples of each step, over the data ranks, in the order of the batch."""
    steps = results[0]["samples"]
    slices = {step: dict.fromkeys(each["samples"][step] for each in results) for step in steps}
    return {step: list(itertools.chain(*found)) for step, found in slices.items()}


@pytest.mark.parametrize("mesh", ["dp=2", "fsdp=2", "pp=2,dp=2"])
def test_a_resumed_run_on_the_same_mesh_is_equal_to_the_bit_with_dropout(mesh, tmp_path: Path):
    count = 4 if "pp" in mesh else 2
    how = {"dropout": 0.1, **SMALL}
    undisturbed = ranks(count, run_with_checkpoints, mesh, str(tmp_path / "a"), STEPS, how)
    ranks(count, run_with_checkpoints, mesh, str(tmp_path / "b"), CUT, how)
    resumed = ranks(count, run_with_checkpoints, mesh, str(tmp_path / "b"), STEPS, how)

    for before, after in zip(undisturbed, resumed, strict=True):
        assert list(after["losses"]) == list(range(CUT, STEPS))
        assert {**before["losses"], **after["losses"]} == before["losses"]
        assert after["sum"] == before["sum"]


def test_the_first_rank_prints_the_location_of_checkpoints_once(tmp_path: Path):
    place = str(tmp_path / "run")
    first, other = ranks(2, capture_stdout, "dp=2", place, CUT, {"every": "2 steps", **SMALL})
    assert (first, other) == (f"checkpoints in {place}, every 2 steps, the newest 3 kept\n", "")
    (again,) = ranks(1, capture_stdout, "", place, STEPS, {"every": "auto", **SMALL})
    assert again.splitlines()[:2] == [
        f"checkpoints in {place}, at the interval of least cost, the newest 3 kept",
        f"resumed after step {CUT}, saved on dp=2",
    ]


def test_a_save_by_the_script_inside_the_loop_counts_the_batch_of_that_step(alone, tmp_path: Path):
    ranks(1, run_with_checkpoints, "", str(tmp_path), STEPS, {"saves_and_ends_after": CUT, **SMALL})
    resumed = ranks(1, run_with_checkpoints, "", str(tmp_path), STEPS, SMALL)[0]["losses"]
    assert resumed == {step: alone["losses"][step] for step in range(CUT, STEPS)}


@pytest.mark.parametrize(("first", "count", "then", "others"), [
    ("dp=2", 2, "dp=3", 3),
    ("dp=3", 3, "", 1),
    ("fsdp=2", 2, "pp=2", 2),
    ("pp=2,fsdp=2", 4, "tp=2", 2),
])  # fmt: skip
def test_a_resumed_run_on_another_mesh_has_the_same_samples_and_losses_up_to_rounding(
    first, count, then, others, alone, tmp_path: Path
):
    cut = ranks(count, run_with_checkpoints, first, str(tmp_path), CUT, SMALL)
    resumed = ranks(others, run_with_checkpoints, then, str(tmp_path), STEPS, SMALL)

    expected = alone["losses"]
    assert cut[0]["losses"] == pytest.approx({step: expected[step] for step in range(CUT)}, abs=1e-6)
    assert resumed[0]["losses"] == pytest.approx({step: expected[step] for step in range(CUT, STEPS)}, abs=1e-6)
    assert {**whole(cut), **whole(resumed)} == whole([alone])


def test_workers_read_the_same_samples(tmp_path: Path):
    here = ranks(2, run_with_checkpoints, "dp=2", str(tmp_path / "a"), CUT, SMALL)
    beside = ranks(2, run_with_checkpoints, "dp=2", str(tmp_path / "b"), CUT, {"workers": 2, **SMALL})
    assert here[0]["losses"] == beside[0]["losses"]


def test_a_stop_signal_to_one_rank_stops_all_ranks_after_a_save(tmp_path: Path):
    asked = ranks(2, run_with_checkpoints, "dp=2", str(tmp_path), STEPS, {"signalled": [1, CUT - 1], **SMALL})
    assert [each["code"] for each in asked] == [83, 83]
    assert [list(each["losses"]) for each in asked] == [list(range(CUT))] * 2
    resumed = ranks(2, run_with_checkpoints, "dp=2", str(tmp_path), STEPS, SMALL)
    assert list(resumed[0]["losses"]) == list(range(CUT, STEPS))


def test_background_saves_have_the_state_of_their_start(tmp_path: Path):
    """With a save at each step the state is copied while the next step computes, and stays unchanged until then."""
    ranks(2, run_with_checkpoints, "fsdp=2", str(tmp_path / "a"), STEPS, {"every": "1 steps", **SMALL})
    undisturbed = ranks(2, run_with_checkpoints, "fsdp=2", str(tmp_path / "b"), STEPS, SMALL)
    for newer in sorted((tmp_path / "a").glob("step-*"))[1:]:
        for file in newer.iterdir():
            file.unlink()
        newer.rmdir()
    resumed = ranks(2, run_with_checkpoints, "fsdp=2", str(tmp_path / "a"), STEPS, SMALL)
    assert resumed[0]["sum"] == undisturbed[0]["sum"]
