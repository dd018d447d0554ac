"""Options of a run on meshes: memory savings, context parallelism, precision and NaN gradients."""

from __future__ import annotations

import pytest
from forked_ranks import ranks
from mesh_losses import CLOSE, STEPS, alone, losses_on, size
from windlass_loops import count_whole_gradients, is_unchanged_by_nan, losses

STEPS_OF_FP16 = 4
"""It skips one or two of them, until the loss scale is found."""


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
def test_memory_savings_keep_the_losses_of_one_process(mesh, how):
    for found in losses_on(mesh, how):
        assert found == pytest.approx(alone(), abs=CLOSE)


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
def test_context_parallelism_keeps_the_losses_of_one_process(mesh, how):
    for found in losses_on(mesh, how):
        assert found == pytest.approx(alone(), abs=CLOSE)


@pytest.mark.parametrize("ac", ["none", "full"])
def test_parts_of_sequences_keep_their_positions(ac):
    how = {"places": True, "positions": ("turns", "places"), "ac": ac}
    whole = ranks(1, losses, "", how, STEPS)[0]
    for found in losses_on("cp=2", how):
        assert found == pytest.approx(whole, abs=CLOSE)


@pytest.mark.parametrize("mesh", ["fsdp=2", "dp=2,fsdp=2"])
def test_between_micro_batches_no_rank_keeps_whole_gradients(mesh):
    assert ranks(size(mesh), count_whole_gradients, mesh) == [0] * size(mesh)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("mesh", ["dp=2", "fsdp=2", "fsdp=2,tp=2", "pp=2,dp=2"])
def test_low_precision_has_similar_losses(precision, mesh):
    steps = STEPS_OF_FP16 if precision == "fp16" else STEPS
    found = losses_on(mesh, {"precision": precision}, steps)[0]
    assert found[:STEPS] == pytest.approx(alone(), abs=0.15)


@pytest.mark.parametrize("mesh", ["dp=2", "fsdp=2", "pp=2"])
@pytest.mark.parametrize("clip", [None, 1.0])
def test_a_nan_gradient_changes_no_parameter_even_with_a_finite_loss(mesh, clip):
    assert ranks(2, is_unchanged_by_nan, mesh, clip) == [True, True]
