"""How a batch is cut: by data rank, and each part into micro-batches. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.train.errors import TrainError


@dataclass(frozen=True, slots=True)
class Micro:
    """One micro-batch of one rank: samples `first` to `first + count - 1` of the global batch.

    `weight`: what its mean loss counts for, so that gradients averaged over the ranks are those of the whole batch.
    """

    first: int
    count: int
    weight: float


@dataclass(frozen=True, slots=True)
class Cut:
    """How many samples a step has, who shares them, and how many go through the model at once at most."""

    global_batch: int
    ranks: int
    micro_batch: int

    @property
    def micros(self) -> int:
        """Micro-batches of a step, the same on every rank: each of them is a collective."""
        largest = -(-self.global_batch // self.ranks)
        return -(-largest // self.micro_batch)

    def of(self, rank: int) -> tuple[Micro, ...]:
        """The micro-batches of one data rank, in order."""
        first, count = parts(self.global_batch, self.ranks)[rank]
        return tuple(
            Micro(first + begin, size, size * self.ranks / self.global_batch)
            for begin, size in parts(count, self.micros)
        )


def cut(global_batch: int, ranks: int, micro_batch: int | None, samples: int | None) -> Cut:
    """Checked: each micro-batch of each rank has a sample. `samples`: of the dataset, None if nobody knows.

    Raises TrainError.
    """
    if samples is not None and samples < global_batch:
        raise too_few(samples, global_batch)
    if global_batch < ranks:
        raise TrainError(
            f"a batch of {global_batch} samples is too small for {ranks} data ranks, one sample each at least; "
            f"global_batch={ranks}, or fewer of dp and fsdp"
        )
    least = global_batch // ranks
    if micro_batch is not None and micro_batch < 1:
        raise TrainError(f"micro_batch={micro_batch}: one sample at least")
    made = Cut(global_batch, ranks, micro_batch or -(-global_batch // ranks))
    if made.micros > least:
        raise TrainError(
            f"global_batch={global_batch} on {ranks} data ranks leaves some with {least} samples, too few for the "
            f"{made.micros} micro-batches of {made.micro_batch} that others need; a global_batch that {ranks} divides"
        )
    return made


def too_few(samples: int, global_batch: int) -> TrainError:
    """A dataset without a single batch."""
    if not samples:
        return TrainError("the dataset is empty")
    return TrainError(
        f"the dataset has {samples} samples, fewer than the {global_batch} of one batch; "
        f"global_batch={samples} is the most"
    )


def parts(count: int, into: int) -> Sequence[tuple[int, int]]:
    """(first, size) of contiguous parts that differ by one at most, the larger ones first."""
    least, larger = divmod(count, into)
    return [(part * least + min(part, larger), least + (part < larger)) for part in range(into)]
