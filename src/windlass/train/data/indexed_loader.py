"""Reads a map-style dataset in the order of `SampleOrder`: the samples of a step are the same on any ranks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler

from windlass.train.data import sample_rng
from windlass.train.data.batch import Batch
from windlass.train.data.batch_split import BatchSplit, MicroSlice
from windlass.train.data.data_facts import refuse_other_data
from windlass.train.data.sample_order import SampleOrder
from windlass.train.data.sample_reader import SampleReader
from windlass.train.errors import TrainError


@runtime_checkable
class IndexedDataset(Protocol):
    """A map-style dataset: samples by index."""

    def __getitem__(self, index: int, /) -> Any: ...

    def __len__(self) -> int: ...


def is_indexed(dataset: IndexedDataset | Iterable[Any]) -> TypeGuard[IndexedDataset]:
    """Whether the dataset is read by index. Raises TrainError if it can be read in no way."""
    # torch's iterable datasets have a __getitem__ as well, which only raises.
    if isinstance(dataset, IndexedDataset) and not isinstance(dataset, IterableDataset):
        return True
    if not isinstance(dataset, Iterable):
        raise TrainError(
            f"a {type(dataset).__name__} is no dataset: it has neither __iter__, nor __getitem__ and __len__"
        )
    return False


class IndexedLoader:
    """The batches of a run, from its current position. The state is the number of samples that have been used.

    Random numbers that a dataset draws in `__getitem__` (from torch, numpy or Python) depend on the seed and the
    sample's position alone, so they are the same on any ranks and after any restart.
    """

    def __init__(
        self, dataset: IndexedDataset, order: SampleOrder, split: BatchSplit, rank: int, reader: SampleReader
    ) -> None:
        self._dataset, self._order, self._split, self._rank, self._reader = dataset, order, split, rank, reader
        self.samples = 0
        """Samples used in the whole run, over all ranks and epochs."""

    @property
    def global_batch(self) -> int:
        """Samples of a step, over all ranks."""
        return self._split.global_batch

    def batches(self) -> Iterator[Batch]:
        """Yield batches from the current position, without end. `advance` marks one as used."""
        micros = self._split.slices_of(self._rank)
        with self._reader.iterate(self._loader(micros)) as loaded:
            for first in itertools.count(self.samples, self.global_batch):
                found = self._reader.read_step(loaded, micros)
                positions = np.concatenate([self._order.indices(first + each.first, each.count) for each in micros])
                yield Batch(first // self.global_batch, found, tuple(positions.tolist()))

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
        order = self._order
        facts = {"seed": order.seed, "size": order.size, "shuffles": order.shuffles}
        return facts | {"global_batch": self.global_batch}

    def _loader(self, micros: tuple[MicroSlice, ...]) -> DataLoader[Any]:
        return DataLoader(
            _PositionedDataset(self._dataset, self._order),
            batch_sampler=_PositionSampler(self.samples, self.global_batch, micros),
            collate_fn=self._reader.collate,
            **self._reader.options,
            generator=sample_rng.loader_generator(self._order.seed),
        )


class _PositionSampler(Sampler[list[int]]):
    """Yields the positions of each micro-batch, one after the other, step after step."""

    def __init__(self, first: int, batch: int, micros: tuple[MicroSlice, ...]) -> None:
        self._first, self._batch, self._micros = first, batch, micros

    def __iter__(self) -> Iterator[list[int]]:
        first = self._first
        while True:
            for micro in self._micros:
                yield list(range(first + micro.first, first + micro.first + micro.count))
            first += self._batch


class _PositionedDataset(Dataset[Any]):
    """A dataset indexed by position in the run, with random numbers that depend on the position."""

    def __init__(self, dataset: IndexedDataset, order: SampleOrder) -> None:
        self._dataset, self._order = dataset, order

    def __getitems__(self, positions: list[int]) -> list[Any]:
        indices = self._order.indices(positions[0], len(positions)).tolist()
        with sample_rng.isolated_generators():
            return [self._sample(position, index) for position, index in zip(positions, indices, strict=True)]

    def __getitem__(self, position: int) -> Any:
        return self.__getitems__([position])[0]

    def _sample(self, position: int, index: int) -> Any:
        sample_rng.seed_sample(self._order.seed, position)
        return self._dataset[index]
