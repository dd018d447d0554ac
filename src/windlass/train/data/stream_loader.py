"""Reads an iterable dataset: it has its own order, of which each rank takes its slices."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, default_collate

from windlass.train.data import sample_rng
from windlass.train.data.batch import Batch
from windlass.train.data.batch_split import BatchSplit, MicroSlice, dataset_too_small
from windlass.train.data.data_facts import refuse_other_data
from windlass.train.data.sample_reader import SampleReader
from windlass.train.errors import TrainError


class StreamLoader:
    """The batches of an iterable dataset, with the same samples in each step on any ranks.

    Every rank reads past the samples of others. To resume, used samples are read past too, or skipped by the dataset if
    it has `skip(count)` and a length. With `set_epoch(epoch)` each epoch has its own order. Random numbers that the
    dataset draws for a sample depend on the seed and the sample's position alone.
    """

    def __init__(
        self, dataset: Iterable[Any], split: BatchSplit, rank: int, reader: SampleReader, seed: int = 0
    ) -> None:
        if reader.workers > 1:
            raise TrainError(f"workers={reader.workers}: an iterable dataset has one order, so it needs workers=1")
        self._dataset, self._split, self._rank, self._reader, self._seed = dataset, split, rank, reader, seed
        self.samples = 0
        """Samples used in the whole run, over all ranks."""

    @property
    def global_batch(self) -> int:
        """Samples of a step, over all ranks."""
        return self._split.global_batch

    def batches(self) -> Iterator[Batch]:
        """Yield batches from the current position to the end of the dataset, then from its start again. See `advance`.

        Raises TrainError, on all ranks at the same step, if the dataset has fewer samples than a batch.
        """
        micros = self._split.slices_of(self._rank)
        with self._reader.iterate(self._loader(micros)) as loaded:
            for first in itertools.count(self.samples, self.global_batch):
                yield Batch(first // self.global_batch, self._reader.read_step(loaded, micros))

    def assign(self, split: BatchSplit, rank: int) -> None:
        """Set the slices that this rank reads from now on; earlier iterators are invalid."""
        self._split, self._rank = split, rank

    def advance(self) -> None:
        """Mark one batch as used."""
        self.samples += self.global_batch

    def state_dict(self) -> dict[str, Any]:
        """Return the position, and the facts that it is valid for."""
        return {"samples": self.samples, **self._facts()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the position; earlier iterators are invalid. Raises TrainError for the state of another dataset."""
        refuse_other_data(state, self._facts())
        self.samples = int(state["samples"])

    def _facts(self) -> dict[str, int]:
        return {"seed": self._seed, "size": _skippable_size(self._dataset), "global_batch": self.global_batch}

    def _loader(self, micros: tuple[MicroSlice, ...]) -> DataLoader[Any]:
        sliced = _SlicedDataset(self._dataset, self.samples, self.global_batch, micros, self._seed)
        # Each item is a whole micro-batch: they differ in size, which torch's own batching does not support.
        return DataLoader(
            sliced,
            batch_size=None,
            collate_fn=self._reader.collate or default_collate,
            **self._reader.options,
            generator=sample_rng.loader_generator(self._seed),
        )


class _SlicedDataset(IterableDataset[list[Any]]):
    """The micro-batches of one rank, from an endless repetition of a dataset."""

    def __init__(
        self, dataset: Iterable[Any], used: int, batch: int, micros: tuple[MicroSlice, ...], seed: int
    ) -> None:
        self._dataset, self._used, self._batch, self._micros, self._seed = dataset, used, batch, micros, seed

    def __iter__(self) -> Iterator[list[Any]]:
        samples = _endless_samples(self._dataset, self._used, self._batch, self._seed)
        end = self._micros[-1].first + self._micros[-1].count
        while True:
            # The whole batch is read before any of it is used: where it is incomplete, no rank is a step ahead.
            with sample_rng.isolated_generators():
                _skip(samples, self._micros[0].first)
                mine = [list(itertools.islice(samples, micro.count)) for micro in self._micros]
                _skip(samples, self._batch - end)
            yield from mine


def _endless_samples(dataset: Iterable[Any], used: int, batch: int, seed: int) -> Iterator[Any]:
    """Yield every sample after the first `used`, epoch after epoch. Raises TrainError for less than a batch."""
    size = _skippable_size(dataset)
    epochs, rest = divmod(used, size) if size else (0, used)
    position = used - rest
    for epoch in itertools.count(epochs):
        sample_rng.seed_sample(seed, position)  # the dataset may draw its order in any of these calls
        if hasattr(dataset, "set_epoch"):
            dataset.set_epoch(epoch)
        skipped = rest if size else 0
        source = dataset.skip(skipped) if skipped else dataset  # type: ignore[attr-defined]
        first = position
        for position, sample in enumerate(_epoch_samples(source, seed, first, skipped), first + skipped + 1):
            if position > used:
                yield sample
        if position - first < batch:
            raise dataset_too_small(position - first, batch)
        rest = 0


def _skippable_size(dataset: Iterable[Any]) -> int:
    """Return the number of samples of an epoch where whole epochs can be skipped, else 0."""
    return len(dataset) if isinstance(dataset, Sized) and hasattr(dataset, "skip") else 0


def _epoch_samples(source: Iterable[Any], seed: int, first: int, skipped: int) -> Iterator[Any]:
    """Yield an epoch's samples after the skipped ones; the first position seeds the order, each position its sample."""
    sample_rng.seed_sample(seed, first)
    samples = iter(source)
    for each in itertools.count(first + skipped):
        sample_rng.seed_sample(seed, each)
        try:
            sample = next(samples)
        except StopIteration:
            return
        yield sample


def _skip(samples: Iterator[Any], count: int) -> None:
    for _ in itertools.islice(samples, count):
        pass
