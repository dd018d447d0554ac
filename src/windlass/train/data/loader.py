"""Builds the loader of a dataset for the ranks of a mesh, and plans how its batches are split."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from windlass.train.data.batch_split import BatchSplit, split_batch
from windlass.train.data.indexed_loader import IndexedDataset, IndexedLoader, is_indexed
from windlass.train.data.sample_order import SampleOrder
from windlass.train.data.sample_reader import SampleReader
from windlass.train.data.stream_loader import StreamLoader
from windlass.train.errors import TrainError
from windlass.train.mesh.degrees import Degrees

Loader = IndexedLoader | StreamLoader


def build_loader(
    dataset: IndexedDataset | Iterable[Any],
    split: BatchSplit,
    rank: int,
    reader: SampleReader,
    *,
    seed: int,
    shuffles: bool,
) -> Loader:
    """Return the loader of data rank `rank`. Raises TrainError for an object that is no dataset."""
    if is_indexed(dataset):
        return IndexedLoader(dataset, SampleOrder(len(dataset), seed, shuffles), split, rank, reader)
    assert isinstance(dataset, Iterable)  # noqa: S101 - `is_indexed` has refused anything else
    return StreamLoader(dataset, split, rank, reader, seed)


def plan_split(global_batch: int, micro_batch: int | None, degrees: Degrees, samples: int | None) -> BatchSplit:
    """Return the split of a batch on a mesh. `samples`: of the dataset, None if unknown. Raises TrainError. Pure."""
    size = _pipeline_micro_batch(global_batch, degrees) if micro_batch is None and degrees.pp > 1 else micro_batch
    split = split_batch(global_batch, degrees.data_ranks, size, samples)
    divisor = degrees.data_ranks * split.micro_count
    if degrees.pp > 1 and global_batch % divisor:
        raise TrainError(
            f"pp: a batch of {global_batch} on {degrees.data_ranks} data ranks cannot be split into "
            f"{split.micro_count} micro-batches of equal size; use a global_batch that {divisor} divides"
        )
    return split


def _pipeline_micro_batch(global_batch: int, degrees: Degrees) -> int:
    """Return the size for twice as many micro-batches as stages, or for the most that divide a rank's samples."""
    samples = global_batch // degrees.data_ranks
    counts = [count for count in range(1, samples + 1) if samples % count == 0]
    enough = [count for count in counts if count >= 2 * degrees.pp]
    return samples // (enough or counts or [1])[0 if enough else -1]
