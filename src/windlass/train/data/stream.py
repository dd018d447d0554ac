"""Reading an iterable dataset: it has an order of its own, of which each rank takes its slices."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, default_collate

from windlass.train.data import draws
from windlass.train.data.batch import Batch
from windlass.train.data.reading import Reading
from windlass.train.data.slices import Cut, Micro, too_few
from windlass.train.errors import TrainError


class Stream:
    """The batches of an iterable dataset, the same samples in each step whatever the ranks.

    Every rank reads past what others use. To go on where a run stood, samples are read past too, or skipped by the
    dataset itself if it has `skip(count)` and a length. With `set_epoch(epoch)` each has its own order. What the
    dataset draws at random while it makes a sample depends on the seed and the sample's place alone.
    """

    def __init__(self, dataset: Iterable[Any], cut: Cut, rank: int, reading: Reading, seed: int = 0) -> None:
        if reading.workers > 1:
            raise TrainError(f"workers={reading.workers}: the order of an iterable dataset is one worker's; workers=1")
        self._dataset, self._cut, self._rank, self._reading, self._seed = dataset, cut, rank, reading, seed
        self.samples = 0
        """Of the whole run, over all ranks, that have been used."""

    @property
    def global_batch(self) -> int:
        """Samples in a step, over all ranks."""
        return self._cut.global_batch

    def batches(self) -> Iterator[Batch]:
        """From where it stands, until the dataset is empty; then from its beginning again. See `advance`.

        Raises TrainError, on all ranks at the same step, if there are fewer samples than a batch has.
        """
        micros = self._cut.of(self._rank)
        with self._reading.begun(self._loader(micros)) as loaded:
            for first in itertools.count(self.samples, self.global_batch):
                yield Batch(first // self.global_batch, self._reading.step(loaded, micros))

    def read(self, cut: Cut, rank: int) -> None:
        """From now on the slices of another rank, of another number; batches asked for before are void."""
        self._cut, self._rank = cut, rank

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
        sliced = _Sliced(self._dataset, self.samples, self.global_batch, micros, self._seed)
        # Each item of it is a whole micro-batch: they differ in size, and torch's own batching would not.
        return DataLoader(
            sliced,
            batch_size=None,
            collate_fn=self._reading.collate or default_collate,
            **self._reading.options,
            generator=draws.generator(self._seed),
        )


class _Sliced(IterableDataset[list[Any]]):
    """Of an endless repetition of a dataset the micro-batches of one rank."""

    def __init__(self, dataset: Iterable[Any], used: int, batch: int, micros: tuple[Micro, ...], seed: int) -> None:
        self._dataset, self._used, self._batch, self._micros, self._seed = dataset, used, batch, micros, seed

    def __iter__(self) -> Iterator[list[Any]]:
        samples = _endless(self._dataset, self._used, self._batch, self._seed)
        end = self._micros[-1].first + self._micros[-1].count
        while True:
            # The whole batch is read before any of it is used: where it does not come out, no rank is a step ahead.
            with draws.apart():
                _pass(samples, self._micros[0].first)
                mine = [list(itertools.islice(samples, micro.count)) for micro in self._micros]
                _pass(samples, self._batch - end)
            yield from mine


def _endless(dataset: Iterable[Any], used: int, batch: int, seed: int) -> Iterator[Any]:
    """Every sample after the first `used`, epoch after epoch. Raises TrainError if it has fewer than a batch."""
    size = len(dataset) if isinstance(dataset, Sized) and hasattr(dataset, "skip") else 0
    epochs, rest = divmod(used, size) if size else (0, used)
    place = used - rest
    for epoch in itertools.count(epochs):
        if hasattr(dataset, "set_epoch"):
            dataset.set_epoch(epoch)
        skipped = rest if size else 0
        source = dataset.skip(skipped) if skipped else dataset  # type: ignore[attr-defined]
        first = place
        for place, sample in enumerate(_drawn(source, seed, first, skipped), first + skipped + 1):
            if place > used:
                yield sample
        if place - first < batch:
            raise too_few(place - first, batch)
        rest = 0


def _drawn(source: Iterable[Any], seed: int, first: int, skipped: int) -> Iterator[Any]:
    """The samples of an epoch but those that were skipped: an order is drawn by its first place, each by its own."""
    draws.begin(seed, first)
    samples = iter(source)
    for each in itertools.count(first + skipped):
        draws.begin(seed, each)
        try:
            sample = next(samples)
        except StopIteration:
            return
        yield sample


def _pass(samples: Iterator[Any], count: int) -> None:
    for _ in itertools.islice(samples, count):
        pass
