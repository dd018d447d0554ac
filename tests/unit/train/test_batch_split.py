"""The split of a batch: every sample once, evenly, and with its weight."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from windlass.train.data.batch_split import split_batch
from windlass.train.errors import TrainError


@given(batch=st.integers(1, 300), ranks=st.integers(1, 16), micro=st.none() | st.integers(1, 50))
def test_every_sample_belongs_to_one_rank_and_weights_sum_to_the_mean(batch, ranks, micro):
    try:
        cuts = split_batch(batch, ranks, micro, None)
    except TrainError:
        assume(False)
    slices = [cuts.slices_of(rank) for rank in range(ranks)]
    assert {len(each) for each in slices} == {cuts.micro_count}
    samples = [each.first + n for mine in slices for each in mine for n in range(each.count)]
    assert samples == list(range(batch))
    assert all(1 <= each.count <= (micro or batch) for mine in slices for each in mine)
    # gradients are averaged over ranks, so the mean of all weights of all micro-batches is that of the batch
    assert sum(each.weight for mine in slices for each in mine) / ranks == pytest.approx(1)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ((16, 4, None, 0), "the dataset is empty"),
        (
            (16, 4, None, 10),
            "the dataset has 10 samples, fewer than the 16 of one batch; the maximum is global_batch=10",
        ),
        ((3, 4, None, None), "a batch of 3 samples is too small for 4 data ranks"),
        ((8, 2, 0, None), "micro_batch=0: at least one sample is needed"),
        ((5, 3, 1, None), "leaves some with 1 samples, too few for the 2 micro-batches of 1 that other ranks need"),
    ],
)
def test_an_impossible_split_is_refused_with_its_numbers(given_, message):
    with pytest.raises(TrainError) as raised:
        split_batch(*given_)
    assert message in str(raised.value)
