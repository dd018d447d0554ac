"""Reading an iterable dataset: it has an order of its own, of which each rank takes its slices."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, default_collate

from windlass.train.data.batch import Batch
from windlass.train.data.reading import Reading
from windlass.train.data.slices import Cut, Micro
from windlass.train.errors import TrainError


class Stream:
    """The batches of an iterable dataset, the same samples in each step whatever the ranks.

    Every rank reads past what others use. To go on where a run stood, samples are read past too, or skipped by the
    dataset itself if it has `skip(count)` and a length. With `set_epoch(epoch)` each has its own order.
    """

    def __init__(self, dataset: Iterable[Any], cut: Cut, rank: int, reading: Reading) -> None:
        if reading.workers > 1:
            raise TrainError(f"workers={reading.workers}: the order of an iterable dataset is one worker's; workers=1")
        self._dataset, self._cut, self._rank, self._reading = dataset, cut, rank, reading
        self.samples = 0
        """Of the whole run, over all ranks, that have been used."""

    @property
    def global_batch(self) -> int:
        """Samples in a step, over all ranks."""
        return self._cut.global_batch

    def batches(self) -> Iterator[Batch]:
        """From where it stands, until the dataset is empty; then from its beginning again. See `advance`."""
        micros = self._cut.of(self._rank)
        loaded = iter(self._loader(micros))
        for first in itertools.count(self.samples, self.global_batch):
            yield Batch(first // self.global_batch, self._reading.step(loaded, micros))

    def advance(self) -> None:
        """One batch more has been used."""
        self.samples += self.global_batch

    def state_dict(self) -> dict[str, Any]:
        """The one integer, and what it is only right with."""
        return {"samples": self.samples, "global_batch": self.global_batch}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there; batches asked for before are void."""
        self.samples = int(state["samples"])

    def _loader(self, micros: tuple[Micro, ...]) -> DataLoader[Any]:
        sliced = _Sliced(self._dataset, self.samples, self.global_batch, micros)
        # Each item of it is a whole micro-batch: they differ in size, and torch's own batching would not.
        return DataLoader(
            sliced,
            batch_size=None,
            collate_fn=self._reading.collate or default_collate,
            **self._reading.options,
        )


class _Sliced(IterableDataset[list[Any]]):
    """Of an endless repetition of a dataset the micro-batches of one rank."""

    def __init__(self, dataset: Iterable[Any], used: int, batch: int, micros: tuple[Micro, ...]) -> None:
        self._dataset, self._used, self._batch, self._micros = dataset, used, batch, micros

    def __iter__(self) -> Iterator[list[Any]]:
        samples = _endless(self._dataset, self._used)
        end = self._micros[-1].first + self._micros[-1].count
        while True:
            list(itertools.islice(samples, self._micros[0].first))
            for micro in self._micros:
                yield list(itertools.islice(samples, micro.count))
            list(itertools.islice(samples, self._batch - end))


def _endless(dataset: Iterable[Any], used: int) -> Iterator[Any]:
    """Every sample after the first `used`, epoch after epoch. Raises TrainError if it has none at all."""
    size = len(dataset) if isinstance(dataset, Sized) and hasattr(dataset, "skip") else 0
    epochs, rest = divmod(used, size) if size else (0, used)
    for epoch in itertools.count(epochs):
        if hasattr(dataset, "set_epoch"):
            dataset.set_epoch(epoch)
        source = dataset.skip(rest) if rest and size else dataset  # type: ignore[attr-defined]
        count = 0
        for count, sample in enumerate(source, 1):
            if size or count > rest:
                yield sample
        if count == 0:
            raise TrainError("the dataset is empty: nothing came out of it")
        rest = 0 if size else max(0, rest - count)
