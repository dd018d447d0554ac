"""The saved state of a run's data: exact in the middle of a later epoch, and refused where the order would change."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset

from windlass.train.data.batch_split import split_batch
from windlass.train.data.loader import build_loader
from windlass.train.data.sample_reader import SampleReader
from windlass.train.errors import TrainError

BATCH, SIZE = 6, 10


def drawn():
    """Random numbers of all three kinds of generators."""
    return torch.rand(()) + random.random() + np.random.random()  # noqa: S311, NPY002


class Indexed(Dataset):
    """A map-style dataset that augments its samples."""

    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        return index, drawn()


class Shuffled(IterableDataset):
    """An iterable that draws a new order whenever it is read."""

    def __iter__(self):
        return ((n, drawn()) for n in torch.randperm(SIZE).tolist())


class ShuffledByEpoch(IterableDataset):
    """An iterable whose order depends on its epoch alone."""

    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        order = torch.randperm(SIZE, generator=torch.Generator().manual_seed(self.epoch))
        return ((n, drawn()) for n in order.tolist())


class ShuffledWithSkip(IterableDataset):
    """An iterable with `skip` that draws its order before the first sample is read."""

    def __len__(self):
        return SIZE

    def skip(self, count):
        return [(n, torch.tensor(0.0)) for n in torch.randperm(SIZE)[count:].tolist()]

    def __iter__(self):
        return iter(self.skip(0))


class ShuffledBySetEpoch(ShuffledWithSkip):
    """An iterable with `skip` that draws its order when it is given its epoch."""

    def set_epoch(self, _):
        self.order = torch.randperm(SIZE).tolist()

    def skip(self, count):
        return [(n, torch.tensor(0.0)) for n in self.order[count:]]


def loader(dataset, *, batch=BATCH, seed=3, shuffles=True, workers=0):
    reader = SampleReader(torch.device("cpu"), workers)
    return build_loader(dataset, split_batch(batch, 1, None, None), 0, reader, seed=seed, shuffles=shuffles)


def read_steps(data, count):
    found = []
    for _, batch in zip(range(count), data.batches(), strict=False):
        found.append(
            [(int(n), float(x)) for micro in batch.micros for n, x in zip(micro.inputs[0], micro.targets, strict=True)]
        )
        data.advance()
    return found


@pytest.mark.parametrize(
    ("dataset", "shuffles", "workers"),
    [
        (Indexed, True, 0),
        (Indexed, False, 0),
        (Indexed, True, 1),
        (Shuffled, True, 0),
        (ShuffledByEpoch, True, 0),
        (ShuffledWithSkip, True, 0),
        (ShuffledWithSkip, True, 1),
        (ShuffledBySetEpoch, True, 0),
    ],
)
def test_a_run_resumes_exactly_in_the_middle_of_a_later_epoch(dataset, shuffles, workers):
    whole = read_steps(loader(dataset(), shuffles=shuffles, workers=workers), 6)
    assert len({tuple(n for n, _ in step) for step in whole}) > 1
    for done in (2, 4):
        before = loader(dataset(), shuffles=shuffles)
        read_steps(before, done)
        torch.manual_seed(done)  # another process has other generators
        after = loader(dataset(), shuffles=shuffles, workers=workers)
        after.load_state_dict(before.state_dict())
        assert read_steps(after, 6 - done) == whole[done:]


@pytest.mark.parametrize("dataset", [Indexed, ShuffledWithSkip])
@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"seed": 4}, "the checkpoint's data has seed=4, and this run has 3: the order of samples would change"),
        ({"batch": 5}, "has global_batch=5, and this run has 6"),
    ],
)
def test_data_whose_order_would_change_are_refused(dataset, other, message):
    with pytest.raises(TrainError, match=message):
        loader(dataset()).load_state_dict(loader(dataset(), **other).state_dict())


@pytest.mark.parametrize("shuffles", [True, False])
def test_data_that_were_shuffled_are_not_continued_in_the_order_of_the_dataset(shuffles):
    saved = loader(Indexed(), shuffles=shuffles).state_dict()
    with pytest.raises(TrainError, match=f"shuffles={shuffles}, and this run has {not shuffles}"):
        loader(Indexed(), shuffles=not shuffles).load_state_dict(saved)


def test_a_stream_with_skip_of_another_length_is_refused(monkeypatch):
    saved = loader(ShuffledWithSkip()).state_dict()
    monkeypatch.setattr(ShuffledWithSkip, "__len__", lambda _: SIZE + 1)
    with pytest.raises(TrainError, match="size=10, and this run has 11"):
        loader(ShuffledWithSkip()).load_state_dict(saved)
