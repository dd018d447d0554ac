"""The order of samples: a permutation in each epoch, the same from every starting point."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.train.data.sample_order import SampleOrder


@given(size=st.integers(1, 3000), seed=st.integers(0, 2**63), epoch=st.integers(0, 1000))
def test_each_epoch_has_every_sample_once(size, seed, epoch):
    assert sorted(SampleOrder(size, seed).indices(epoch * size, size)) == list(range(size))


@given(size=st.integers(1, 500), first=st.integers(0, 2000), count=st.integers(0, 50), cut=st.integers(0, 50))
def test_the_order_is_independent_of_the_pieces_that_are_read(size, first, count, cut):
    order, cut = SampleOrder(size, 7), min(cut, count)
    whole = order.indices(first, count)
    assert [*order.indices(first, cut), *order.indices(first + cut, count - cut)] == list(whole)


def test_epochs_and_seeds_differ():
    orders = [SampleOrder(1000, seed).indices(epoch * 1000, 1000).tolist() for seed in (0, 1) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4


def test_the_order_without_shuffling_is_that_of_the_dataset():
    assert SampleOrder(3, shuffles=False).indices(2, 5).tolist() == [2, 0, 1, 2, 0]


def test_a_position_of_a_huge_dataset_needs_no_table():
    found = SampleOrder(10**15, 1).indices(10**14, 3)
    assert len(set(found.tolist())) == 3
    assert found.max() < 10**15


@pytest.mark.parametrize("size", [97, 1000, 4096])
def test_samples_that_were_neighbours_are_spread_evenly(size):
    """Chi-squared over a grid of (old position, new position), 64 cells, 49 degrees of freedom: 100 has odds of 1 in
    40,000."""
    found = np.concatenate([SampleOrder(size, seed).indices(0, size) for seed in range(40)])
    places = np.tile(np.arange(size), 40)
    grid, _, _ = np.histogram2d(places, found, bins=8, range=[[0, size], [0, size]])
    expected = np.outer(grid.sum(1), grid.sum(0)) / grid.sum()
    assert ((grid - expected) ** 2 / expected).sum() < 100
