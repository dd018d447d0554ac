"""What it costs to read samples whose randomness depends on their place."""

import itertools

import torch

from windlass.train.data.loader import Data
from windlass.train.data.order import Order
from windlass.train.data.reading import Reading
from windlass.train.data.slices import cut


def test_seeding_each_sample_leaves_nothing_behind_for_a_gpu_that_is_not_there():
    before = len(torch.cuda._queued_calls)
    data = Data(list(enumerate(range(40))), Order(40), cut(8, 1, None, 40), 0, Reading(torch.device("cpu")))
    assert len(list(itertools.islice(data.batches(), 5))) == 5
    assert len(torch.cuda._queued_calls) == before
