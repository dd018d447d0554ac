"""One script's loop on every mesh: the losses of one process, to 2e-6 in fp32."""

from __future__ import annotations

import pytest
from forked_ranks import ranks
from mesh_losses import CLOSE, DEEP, STEPS, alone, losses_on
from windlass_loops import losses

MESHES = [
    "dp=2", "dp=3", "fsdp=2", "tp=2", "pp=2",
    "dp=2,fsdp=2", "dp=2,tp=2", "fsdp=2,tp=2", "pp=2,dp=2", "pp=2,fsdp=2", "pp=2,tp=2",
    "pp=2,dp=2,tp=2", "pp=2,fsdp=2,tp=2", "dp=2,fsdp=2,tp=2", "pp=2,dp=2,fsdp=2",
]  # fmt: skip


@pytest.mark.parametrize("mesh", MESHES)
def test_a_mesh_has_the_losses_of_one_process(mesh):
    for found in losses_on(mesh):
        assert found == pytest.approx(alone(), abs=CLOSE)


def test_four_stages_have_the_losses_of_one_process():
    for found in losses_on("pp=4", DEEP):
        assert found == pytest.approx(alone(DEEP["layers"]), abs=CLOSE)


def test_auto_chooses_the_simplest_mesh_that_holds_the_model():
    for found in ranks(2, losses, "auto", {}, STEPS):
        assert found == pytest.approx(alone(), abs=CLOSE)


@pytest.mark.parametrize("schedule", ["gpipe", "interleaved", "zero-bubble", "zbv"])
def test_every_pipeline_schedule_has_the_losses_of_one_process(schedule):
    for found in losses_on("pp=2", {"schedule": schedule, **DEEP}):
        assert found == pytest.approx(alone(DEEP["layers"]), abs=CLOSE)


@pytest.mark.parametrize("mesh", ["dp=2", "pp=2", "pp=2,fsdp=2"])
def test_an_evaluation_between_two_steps_changes_nothing(mesh):
    for found in losses_on(mesh, {"evaluates": True}):
        assert found == pytest.approx(alone(), abs=CLOSE)
