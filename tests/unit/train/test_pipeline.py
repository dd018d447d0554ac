"""The split of a chain of modules, and the part of a model on one rank."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_models import Decoder
from torch import nn

from windlass.train.errors import TrainError
from windlass.train.parallel.pipeline import (
    find_chain,
    remove_other_modules,
    split_chain,
    stages_of_rank,
    stages_per_rank,
)
from windlass.train.parallel.plan import Plan

CHAIN = Plan(pipeline=("embed", "layers.*", "norm", "head"))


def widths(*outputs: int) -> nn.Sequential:
    """A chain of modules with these numbers of parameters."""
    return nn.Sequential(*(nn.Linear(1, count, bias=False) for count in outputs))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.integers(1, 6))
def test_stages_are_contiguous_and_none_is_empty(weights, count):
    model = widths(*weights)
    paths = find_chain(model, Plan())
    if len(weights) < count:
        with pytest.raises(TrainError, match="cannot make"):
            split_chain(model, paths, count)
        return
    stages = split_chain(model, paths, count)
    assert [path for stage in stages for path in stage] == paths
    assert len(stages) == count
    assert all(stages)


def test_the_largest_stage_is_as_small_as_possible():
    assert split_chain(widths(9, 1, 1, 1, 9), list("01234"), 3) == [["0"], ["1", "2", "3"], ["4"]]


def test_a_rank_keeps_its_modules_under_their_names():
    model = Decoder(layers=4)
    remove_other_modules(model, ["layers.2", "layers.3", "norm"])
    assert {name.partition(".w")[0] for name, _ in model.named_parameters()} >= {"layers.3.attention", "norm"}
    assert not [name for name, _ in model.named_parameters() if name.startswith(("embed", "layers.0", "head"))]


def test_looped_stages_are_assigned_in_loops_or_there_and_back():
    assert [stages_of_rank(4, 2, rank, "interleaved") for rank in (0, 1)] == [[0, 2], [1, 3]]
    assert [stages_of_rank(4, 2, rank, "zbv") for rank in (0, 1)] == [[0, 3], [1, 2]]


def test_a_model_that_is_no_pipeline_is_refused_with_the_reason():
    with pytest.raises(TrainError, match="name them with Plan"):
        find_chain(Decoder(), Plan())
    with pytest.raises(TrainError, match=r"pp: head\.weight is not in the pipeline"):
        find_chain(Decoder(), Plan(pipeline=("embed", "layers.*", "norm")))
    tied = Decoder()
    tied.head.weight = tied.embed.weight
    with pytest.raises(TrainError, match="embed and head share a parameter"):
        find_chain(tied, CHAIN)
    with pytest.raises(TrainError, match=r"layer: Decoder has no module of that path; it has embed, layers"):
        find_chain(Decoder(), Plan(pipeline=("layer",)))


@pytest.mark.parametrize(
    ("schedule", "requested", "stages"),
    [("1f1b", 1, 1), ("interleaved", 1, 2), ("interleaved", 4, 4), ("zero-bubble", 3, 3), ("zbv", 1, 2), ("zbv", 2, 2)],
)
def test_a_schedule_gives_each_rank_its_stages(schedule, requested, stages):
    assert stages_per_rank(Plan(schedule=schedule, stages_per_rank=requested)) == stages


@pytest.mark.parametrize(("schedule", "requested"), [("gpipe", 2), ("1f1b", 2), ("zbv", 3)])
def test_a_number_of_stages_that_the_schedule_lacks_is_refused(schedule, requested):
    with pytest.raises(TrainError, match=f"stages_per_rank={requested}: {schedule} has"):
        stages_per_rank(Plan(schedule=schedule, stages_per_rank=requested))
