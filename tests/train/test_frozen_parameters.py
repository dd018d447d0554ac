"""A frozen body under a trainable head: equal losses on any mesh, saved and resumed as any other run."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked_ranks import ranks
from windlass_loops import run_with_checkpoints

STEPS, CUT = 4, 2
FROZEN = {"frozen": True}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The losses of one process."""
    return ranks(1, run_with_checkpoints, "", str(tmp_path_factory.mktemp("alone")), STEPS, FROZEN)[0]["losses"]


@pytest.mark.parametrize("mesh", ["dp=2", "fsdp=2", "tp=2"])
def test_a_partly_frozen_model_has_the_losses_of_one_process_and_resumes(mesh, alone, tmp_path: Path):
    first = ranks(2, run_with_checkpoints, mesh, str(tmp_path), CUT, FROZEN)[0]["losses"]
    resumed = ranks(2, run_with_checkpoints, mesh, str(tmp_path), STEPS, FROZEN)[0]["losses"]

    assert list(resumed) == [2, 3]
    assert {**first, **resumed} == pytest.approx(alone, abs=2e-6)
