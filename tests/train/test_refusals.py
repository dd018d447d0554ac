"""Impossible runs are refused once, by the first rank, before anything is sent; and no rank hangs."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked_ranks import ranks
from windlass_loops import refused


@pytest.mark.parametrize(
    ("mesh", "how", "message"),
    [
        ("tp=4", {}, "mesh 'tp=4' makes 4 ranks (tp 4), and the world has 2; use tp=2"),
        (
            "cp=2",
            {"length": 18},
            "cp=2: sequences of 18 cannot be split into 4 equal chunks; use a length that 4 divides",
        ),
        ("cp=2", {"places": "table"}, "name it with Plan(positions=('turns',))"),
        ("cp=2", {"places": "numbered"}, "cp: the model numbers positions by torch.arange from the start"),
        ("pp=2", {"pipeline": ()}, "which modules Decoder calls as a chain cannot be inferred"),
        ("tp=2", {"tensor": {"layers.*.attention.wq": "colwise", "embed": "embedding"}}, "no style is known for"),
        ("dp=2", {"global_batch": 1}, "a batch of 1 samples is too small for 2 data ranks"),
        ("dp=2", {"global_batch": 500}, "the dataset has 100 samples, fewer than the 500 of one batch"),
        ("pp=2", {"frozen": True}, "stage 1 of 2 (embed to layers.1) has no trainable parameter, all are frozen"),
        ("pp=2", {"global_batch": 7, "micro_batch": 2}, "cannot be split into 4 micro-batches of equal size"),
        ("pp=2", {"global_batch": 2, "micro_batch": 2}, "1f1b does not support 1 micro-batches on 2 stages"),
        ("dp=2", {"place": "/proc/nowhere"}, "/proc/nowhere"),
        ("dp=2", {"steps_taken": 0}, "the loop took no step: call run.step(optimizer) once for each batch"),
        ("dp=2", {"nan": True}, "is not finite; try a lower learning rate"),
    ],
)
def test_the_first_rank_prints_the_reason_and_all_ranks_exit(mesh, how, message, tmp_path: Path):
    first, second = ranks(2, refused, mesh, {"place": str(tmp_path), **how})
    assert (first["code"], second["code"]) == (85, 85)
    assert message in first["err"]
    assert first["err"].startswith("windlass: ")
    assert "Traceback" not in first["err"]
    assert second["err"] == ""


def test_a_checkpoint_of_another_model_is_refused_with_its_tensors(tmp_path: Path):
    assert [each["code"] for each in ranks(2, refused, "dp=2", {"place": str(tmp_path), "layers": 2})] == [0, 0]
    first, second = ranks(2, refused, "dp=2", {"place": str(tmp_path), "layers": 3})
    assert (first["code"], second["code"]) == (85, 85)
    assert "belongs to another model" in first["err"]
    assert "layers.2" in first["err"]
