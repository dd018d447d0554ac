"""The cost of samples whose random numbers depend on their position."""

import itertools

import torch

from windlass.train.data.batch_split import split_batch
from windlass.train.data.indexed_loader import IndexedLoader
from windlass.train.data.sample_order import SampleOrder
from windlass.train.data.sample_reader import SampleReader


def test_seeding_samples_queues_nothing_for_an_absent_gpu():
    before = len(torch.cuda._queued_calls)
    data = IndexedLoader(
        list(enumerate(range(40))), SampleOrder(40), split_batch(8, 1, None, 40), 0, SampleReader(torch.device("cpu"))
    )
    assert len(list(itertools.islice(data.batches(), 5))) == 5
    assert len(torch.cuda._queued_calls) == before
