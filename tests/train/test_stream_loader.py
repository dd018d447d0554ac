"""Iterable datasets: a step has the same samples on any ranks, with and without a worker, and after a restart."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset

from windlass.train.data.batch_split import split_batch
from windlass.train.data.indexed_loader import is_indexed
from windlass.train.data.sample_reader import SampleReader
from windlass.train.data.stream_loader import StreamLoader
from windlass.train.errors import TrainError

BATCH = 6


class Counting(IterableDataset):
    """Yield (n, n) for each n, the second in a tensor, as targets are."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self):
        return ((torch.tensor(n), torch.tensor(n)) for n in range(self.size))


class Sized(Counting):
    def __len__(self) -> int:
        return self.size


class Skipping(Sized):
    """A dataset that can start in the middle, and counts the samples that it produced."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.made = 0
        self.first = 0
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def skip(self, count: int):
        return self._from(count)

    def __iter__(self):
        return self._from(0)

    def _from(self, first: int):
        for n in range(first, self.size):
            self.made += 1
            number = 100 * self.epoch + n
            yield torch.tensor(number), torch.tensor(number)


class Drawing(Counting):
    """A dataset that draws from all three kinds of generators."""

    def __iter__(self):
        for n in range(self.size):
            yield torch.tensor(n), torch.rand(()) + random.random() + np.random.random()  # noqa: S311, NPY002


def stream(dataset, ranks: int = 1, rank: int = 0, *, workers: int = 0, micro_batch: int | None = None, seed: int = 0):
    return StreamLoader(
        dataset, split_batch(BATCH, ranks, micro_batch, None), rank, SampleReader(torch.device("cpu"), workers), seed
    )


def collect_targets(data: StreamLoader, steps: int) -> list[list[float]]:
    """Return the targets of each step on one rank, over its micro-batches."""
    found = []
    for _, batch in zip(range(steps), data.batches(), strict=False):
        found.append([float(each) for micro in batch.micros for each in micro.targets])
        data.advance()
    return found


def together(dataset, ranks: int, steps: int, **how) -> list[list[float]]:
    mine = [collect_targets(stream(dataset, ranks, rank, **how), steps) for rank in range(ranks)]
    return [list(itertools.chain(*parts)) for parts in zip(*mine, strict=True)]


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("micro_batch", [None, 1])
def test_any_number_of_ranks_reads_the_same_samples_and_starts_again_at_the_end(ranks, micro_batch):
    assert together(Counting(10), ranks, 3, micro_batch=micro_batch) == [
        [0, 1, 2, 3, 4, 5],
        [6, 7, 8, 9, 0, 1],
        [2, 3, 4, 5, 6, 7],
    ]


def test_a_worker_reads_the_same_samples():
    assert together(Drawing(10), 2, 3, workers=1) == together(Drawing(10), 2, 3)


def test_several_workers_are_refused_because_each_has_its_own_order():
    with pytest.raises(TrainError, match="workers=2: an iterable dataset has one order, so it needs workers=1"):
        stream(Counting(10), workers=2)


@pytest.mark.parametrize("dataset", [Counting, Skipping, Drawing])
@pytest.mark.parametrize("done", [1, 2, 5])
def test_a_run_resumes_in_the_middle_also_on_another_number_of_ranks(dataset, done):
    whole = together(dataset(10), 1, 7)
    before = [stream(dataset(10), 2, rank) for rank in range(2)]
    for each in before:
        collect_targets(each, done)
    after = [stream(dataset(10), 3, rank) for rank in range(3)]
    for each in after:
        each.load_state_dict(before[0].state_dict())
    rest = [collect_targets(each, 7 - done) for each in after]
    assert [list(itertools.chain(*parts)) for parts in zip(*rest, strict=True)] == whole[done:]


def test_a_dataset_with_skip_produces_only_unused_samples_and_receives_its_epoch():
    dataset = Skipping(10)
    data = stream(dataset)
    data.load_state_dict({"samples": 12, "global_batch": BATCH})
    assert collect_targets(data, 2) == [[102, 103, 104, 105, 106, 107], [108, 109, 200, 201, 202, 203]]
    assert dataset.made == 8 + 4


def test_random_numbers_depend_on_seed_and_position_alone_and_leave_rank_generators_unchanged():
    torch.manual_seed(1)
    before = torch.get_rng_state(), random.getstate()
    drawn = together(Drawing(10), 2, 3)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert len({each for step in drawn for each in step}) == 3 * BATCH
    torch.manual_seed(2)
    assert together(Drawing(10), 3, 3) == drawn
    assert together(Drawing(10), 1, 3, seed=1) != drawn


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("size", "message"),
    [
        (0, "the dataset is empty"),
        (5, "the dataset has 5 samples, fewer than the 6 of one batch; the maximum is global_batch=5"),
    ],
)
def test_a_dataset_without_a_batch_is_refused_on_every_rank_before_the_first_step(size, message, workers):
    for rank in range(2):
        with pytest.raises(TrainError) as refused:
            collect_targets(stream(Counting(size), 2, rank, workers=workers), 1)
        assert str(refused.value) == message


def test_an_iterable_with_a_length_is_still_read_from_its_start():
    """torch gives its iterable datasets a __getitem__, which only raises."""
    assert not is_indexed(Sized(10))
    assert is_indexed([1, 2])
    with pytest.raises(TrainError, match="a int is no dataset: it has neither __iter__, nor __getitem__ and __len__"):
        is_indexed(3)


def test_a_rank_that_ends_in_the_middle_does_not_wait_for_its_workers():
    """Workers ignore SIGTERM, and Python waits for processes that it has sent one."""
    script = (
        "import sys, test_stream_loader as t; sys.kept = t.stream(t.Counting(10), workers=1).batches(); "
        "next(sys.kept); sys.exit(3)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])}
    assert subprocess.run([sys.executable, "-c", script], env=env, check=False, timeout=100).returncode == 3
