"""One script's loop on every mesh: the losses of one process, to 2e-6 in fp32."""

from __future__ import annotations

import functools

import pytest
from forked_ranks import ranks
from windlass_loops import count_whole_gradients, is_unchanged_by_nan, losses

STEPS = 3
STEPS_OF_FP16 = 4
"""It skips one or two of them, until the loss scale is found."""
CLOSE = 2e-6
"""Difference of losses in fp32 after a few steps, from another order of sums."""
MESHES = [
    "dp=2", "dp=3", "fsdp=2", "tp=2", "pp=2",
    "dp=2,fsdp=2", "dp=2,tp=2", "fsdp=2,tp=2", "pp=2,dp=2", "pp=2,fsdp=2", "pp=2,tp=2",
    "pp=2,dp=2,tp=2", "pp=2,fsdp=2,tp=2", "dp=2,fsdp=2,tp=2", "pp=2,dp=2,fsdp=2",
]  # fmt: skip
DEEP = {"layers": 4}


def size(mesh: str) -> int:
    return functools.reduce(lambda product, part: product * int(part.partition("=")[2]), mesh.split(","), 1)


@pytest.fixture(scope="module")
def alone():
    """The losses of one process. Some steps are clipped, so that a wrong norm is visible in the last loss."""
    return ranks(1, losses, "", {}, STEPS)[0]


@pytest.fixture(scope="module")
def deep_alone():
    """The losses of one process with a model that can be cut into four stages."""
    return ranks(1, losses, "", DEEP, STEPS)[0]


@pytest.mark.parametrize("mesh", MESHES)
def test_a_mesh_has_the_losses_of_one_process(mesh, alone):
    for found in ranks(size(mesh), losses, mesh, {}, STEPS):
        assert found == pytest.approx(alone, abs=CLOSE)


def test_four_stages_have_the_losses_of_one_process(deep_alone):
    for found in ranks(4, losses, "pp=4", DEEP, STEPS):
        assert found == pytest.approx(deep_alone, abs=CLOSE)


def test_auto_chooses_the_simplest_mesh_that_holds_the_model(alone):
    for found in ranks(2, losses, "auto", {}, STEPS):
        assert found == pytest.approx(alone, abs=CLOSE)


@pytest.mark.parametrize("schedule", ["gpipe", "interleaved", "zero-bubble", "zbv"])
def test_every_pipeline_schedule_has_the_losses_of_one_process(schedule, deep_alone):
    for found in ranks(2, losses, "pp=2", {"schedule": schedule, **DEEP}, STEPS):
        assert found == pytest.approx(deep_alone, abs=CLOSE)


@pytest.mark.parametrize(
    ("mesh", "how"),
    [
        ("tp=2", {"loss_parallel": True}),
        ("fsdp=2", {"ac": "full"}),
        ("pp=2,fsdp=2", {"ac": "selective"}),
        ("dp=2", {"micro_batch": 3}),
        ("fsdp=2", {"micro_batch": 4}),
        ("dp=3", {"micro_batch": 3}),
        ("dp=2,fsdp=2", {"micro_batch": 2}),
        ("dp=2,tp=2", {"micro_batch": 4}),
        ("fsdp=2,tp=2", {"micro_batch": 5}),
    ],
)
def test_memory_savings_keep_the_losses_of_one_process(mesh, how, alone):
    for found in ranks(size(mesh), losses, mesh, how, STEPS):
        assert found == pytest.approx(alone, abs=CLOSE)


@pytest.mark.parametrize(
    ("mesh", "how"),
    [
        ("cp=2", {}),
        ("cp=4", {}),
        ("cp=2", {"micro_batch": 5, "evaluates": True}),
        ("dp=2,cp=2", {"ac": "full"}),
        ("fsdp=2,cp=2", {"ac": "selective", "micro_batch": 6}),
        ("cp=2,tp=2", {}),
        ("dp=2,fsdp=2,cp=2", {}),
    ],
)
def test_context_parallelism_keeps_the_losses_of_one_process(mesh, how, alone):
    for found in ranks(size(mesh), losses, mesh, how, STEPS):
        assert found == pytest.approx(alone, abs=CLOSE)


@pytest.mark.parametrize("ac", ["none", "full"])
def test_parts_of_sequences_keep_their_positions(ac):
    how = {"places": True, "positions": ("turns", "places"), "ac": ac}
    whole = ranks(1, losses, "", how, STEPS)[0]
    for found in ranks(2, losses, "cp=2", how, STEPS):
        assert found == pytest.approx(whole, abs=CLOSE)


@pytest.mark.parametrize("mesh", ["fsdp=2", "dp=2,fsdp=2"])
def test_between_micro_batches_no_rank_keeps_whole_gradients(mesh):
    assert ranks(size(mesh), count_whole_gradients, mesh) == [0] * size(mesh)


@pytest.mark.parametrize("mesh", ["dp=2", "pp=2", "pp=2,fsdp=2"])
def test_an_evaluation_between_two_steps_changes_nothing(mesh, alone):
    for found in ranks(size(mesh), losses, mesh, {"evaluates": True}, STEPS):
        assert found == pytest.approx(alone, abs=CLOSE)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("mesh", ["dp=2", "fsdp=2", "fsdp=2,tp=2", "pp=2,dp=2"])
def test_low_precision_has_similar_losses(precision, mesh, alone):
    steps = STEPS_OF_FP16 if precision == "fp16" else STEPS
    found = ranks(size(mesh), losses, mesh, {"precision": precision}, steps)[0]
    assert found[:STEPS] == pytest.approx(alone, abs=0.15)


@pytest.mark.parametrize("mesh", ["dp=2", "fsdp=2", "pp=2"])
@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_nan_gradient_changes_no_parameter_even_with_a_finite_loss(mesh, clip):
    assert ranks(2, is_unchanged_by_nan, mesh, clip) == [True, True]
