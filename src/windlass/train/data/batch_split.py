"""Splits a batch by data rank, and each part into micro-batches. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.train.errors import TrainError


@dataclass(frozen=True, slots=True)
class MicroSlice:
    """One micro-batch of one rank: samples `first` to `first + count - 1` of the global batch.

    `weight`: factor of its mean loss, such that gradients averaged over the ranks are those of the whole batch.
    """

    first: int
    count: int
    weight: float


@dataclass(frozen=True, slots=True)
class BatchSplit:
    """Samples of a step, the number of data ranks, and the maximum size of a micro-batch."""

    global_batch: int
    ranks: int
    micro_batch: int

    @property
    def micro_count(self) -> int:
        """Number of micro-batches of a step; equal on every rank, because each micro-batch may run collectives."""
        largest = -(-self.global_batch // self.ranks)
        return -(-largest // self.micro_batch)

    def slices_of(self, rank: int) -> tuple[MicroSlice, ...]:
        """Return the micro-batches of one data rank, in order."""
        first, count = split_evenly(self.global_batch, self.ranks)[rank]
        return tuple(
            MicroSlice(first + begin, size, size * self.ranks / self.global_batch)
            for begin, size in split_evenly(count, self.micro_count)
        )


def split_batch(global_batch: int, ranks: int, micro_batch: int | None, samples: int | None) -> BatchSplit:
    """Return a split with a sample at least in each micro-batch. `samples`: of the dataset, None if unknown.

    Raises TrainError.
    """
    if samples is not None and samples < global_batch:
        raise dataset_too_small(samples, global_batch)
    if global_batch < ranks:
        raise TrainError(
            f"a batch of {global_batch} samples is too small for {ranks} data ranks, at least one sample each; "
            f"use global_batch={ranks}, or a smaller dp or fsdp"
        )
    least = global_batch // ranks
    if micro_batch is not None and micro_batch < 1:
        raise TrainError(f"micro_batch={micro_batch}: at least one sample is needed")
    made = BatchSplit(global_batch, ranks, micro_batch or -(-global_batch // ranks))
    if made.micro_count > least:
        raise TrainError(
            f"global_batch={global_batch} on {ranks} data ranks leaves some with {least} samples, too few for the "
            f"{made.micro_count} micro-batches of {made.micro_batch} that other ranks need; "
            f"use a global_batch that {ranks} divides"
        )
    return made


def dataset_too_small(samples: int, global_batch: int) -> TrainError:
    """Return the error for a dataset with less than one batch."""
    if not samples:
        return TrainError("the dataset is empty")
    return TrainError(
        f"the dataset has {samples} samples, fewer than the {global_batch} of one batch; "
        f"the maximum is global_batch={samples}"
    )


def split_evenly(count: int, into: int) -> Sequence[tuple[int, int]]:
    """Return (first, size) of contiguous parts that differ by at most one, the larger ones first."""
    least, larger = divmod(count, into)
    return [(part * least + min(part, larger), least + (part < larger)) for part in range(into)]
