"""How sequences are cut over `cp`: everything once, and as much causal work for each rank."""

import pytest

from windlass.train.errors import TrainError
from windlass.train.parallel.sequence import chunks_of


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_each_token_is_of_one_rank_and_each_rank_looks_back_as_far(ranks):
    length = 96
    mine = [[place for chunk in chunks_of(length, ranks, rank) for place in chunk] for rank in range(ranks)]
    assert sorted(place for places in mine for place in places) == list(range(length))
    assert len({sum(places) for places in mine}) == 1


def test_a_length_that_does_not_divide_is_refused_with_what_would():
    with pytest.raises(TrainError, match="cp=4: sequences of 100 do not make 8 equal chunks; a length that 8 divides"):
        chunks_of(100, 4, 0)
