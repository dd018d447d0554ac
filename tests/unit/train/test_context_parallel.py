"""The split of sequences over `cp`: every token once, and equal causal work for each rank."""

from types import SimpleNamespace

import pytest
import torch

from windlass.train.errors import TrainError
from windlass.train.parallel.context_parallel import ContextParallel, chunk_ranges


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_each_token_belongs_to_one_rank_and_ranks_have_equal_causal_work(ranks):
    length = 96
    mine = [[place for chunk in chunk_ranges(length, ranks, rank) for place in chunk] for rank in range(ranks)]
    assert sorted(place for places in mine for place in places) == list(range(length))
    assert len({sum(places) for places in mine}) == 1


def test_a_length_that_does_not_divide_is_refused_with_a_divisor():
    with pytest.raises(
        TrainError, match="cp=4: sequences of 100 cannot be split into 8 equal chunks; use a length that 8 divides"
    ):
        chunk_ranges(100, 4, 0)


@pytest.fixture
def half():
    """A sequence of 16, on the first of two ranks."""
    sequences = ContextParallel(SimpleNamespace(size=lambda: 2, rank=lambda: 0))
    with sequences.shard(16, torch.device("cpu")):
        yield sequences


COUNTS = [
    ((8,), {}),
    ((0, 8), {}),
    ((), {"end": 8}),
    ((8,), {"dtype": torch.float32, "device": "cpu"}),
    ((100, 108), {}),
    ((100,), {"start": 92}),
    ((0, 8, 1), {}),
]
OTHERS = [((7,), {}), ((16,), {}), ((0, 16, 2), {}), ((0, 8, 2), {}), ((4, 8), {}), ((), {"end": 8, "step": 2})]


@pytest.mark.parametrize(("args", "named"), COUNTS)
def test_a_model_that_numbers_the_positions_of_its_part_is_refused(half, args, named):
    with pytest.raises(TrainError, match=r"numbers positions by torch\.arange"):
        half.refuse_arange(args, named)
    half.has_position_lookup = True
    half.refuse_arange(args, named)


@pytest.mark.parametrize(("args", "named"), OTHERS)
def test_other_ranges_are_accepted(half, args, named):
    half.refuse_arange(args, named)


def test_arange_is_intercepted_while_a_model_runs(half):
    with pytest.raises(TrainError, match="name the module that looks them up"):
        torch.arange(0, 8, device="cpu")
