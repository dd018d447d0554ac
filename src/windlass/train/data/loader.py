"""Reading a map-style dataset in the order that `Order` says: the samples of a step are the same on any ranks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler

from windlass.train.data import draws
from windlass.train.data.batch import Batch
from windlass.train.data.order import Order
from windlass.train.data.reading import Reading
from windlass.train.data.slices import Cut, Micro
from windlass.train.errors import TrainError


@runtime_checkable
class Indexed(Protocol):
    """A map-style dataset: samples by index."""

    def __getitem__(self, index: int, /) -> Any: ...

    def __len__(self) -> int: ...


def is_indexed(dataset: Indexed | Iterable[Any]) -> TypeGuard[Indexed]:
    """Whether it is read by index. Raises TrainError if it can be read in no way."""
    # torch gives its iterable datasets a __getitem__ as well, which only raises.
    if isinstance(dataset, Indexed) and not isinstance(dataset, IterableDataset):
        return True
    if not isinstance(dataset, Iterable):
        raise TrainError(f"a {type(dataset).__name__} is no dataset: it has no __iter__, nor __getitem__ and __len__")
    return False


class Data:
    """The batches of a run, from wherever it stands. Its state is the number of samples that have been used.

    What a dataset draws at random in `__getitem__` (from torch, numpy or Python) depends on the seed and the sample's
    place alone, so it too is the same on any ranks and after any restart.
    """

    def __init__(self, dataset: Indexed, order: Order, cut: Cut, rank: int, reading: Reading) -> None:
        self._dataset, self._order, self._cut, self._rank, self._reading = dataset, order, cut, rank, reading
        self.samples = 0
        """Of the whole run, over all ranks and epochs, that have been used."""

    @property
    def global_batch(self) -> int:
        """Samples in a step, over all ranks."""
        return self._cut.global_batch

    def batches(self) -> Iterator[Batch]:
        """From where it stands, without end. `advance` says that one has been used."""
        micros = self._cut.of(self._rank)
        with self._reading.begun(self._loader(micros)) as loaded:
            for first in itertools.count(self.samples, self.global_batch):
                found = self._reading.step(loaded, micros)
                places = np.concatenate([self._order.indices(first + each.first, each.count) for each in micros])
                yield Batch(first // self.global_batch, found, tuple(places.tolist()))

    def read(self, cut: Cut, rank: int) -> None:
        """From now on the slices of another rank, of another number; batches asked for before are void."""
        self._cut, self._rank = cut, rank

    def advance(self) -> None:
        """One batch more has been used."""
        self.samples += self.global_batch

    def state_dict(self) -> dict[str, Any]:
        """The one integer, and what it is only right with."""
        return {"samples": self.samples, **self._facts()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there; batches asked for before are void. Raises TrainError if it was another dataset's."""
        for name, mine in self._facts().items():
            if name in state and state[name] != mine:
                raise TrainError(
                    f"the checkpoint's data had {name}={state[name]}, and here it is {mine}: "
                    f"the order would not be the same; keep {name}, or leave the data out of the state to begin it anew"
                )
        self.samples = int(state["samples"])

    def _facts(self) -> dict[str, int]:
        return {"seed": self._order.seed, "size": self._order.size, "global_batch": self.global_batch}

    def _loader(self, micros: tuple[Micro, ...]) -> DataLoader[Any]:
        return DataLoader(
            _Placed(self._dataset, self._order),
            batch_sampler=_Places(self.samples, self.global_batch, micros),
            collate_fn=self._reading.collate,
            **self._reading.options,
            generator=draws.generator(self._order.seed),
        )


class _Places(Sampler[list[int]]):
    """The places of each micro-batch, one after the other, step after step."""

    def __init__(self, first: int, batch: int, micros: tuple[Micro, ...]) -> None:
        self._first, self._batch, self._micros = first, batch, micros

    def __iter__(self) -> Iterator[list[int]]:
        first = self._first
        while True:
            for micro in self._micros:
                yield list(range(first + micro.first, first + micro.first + micro.count))
            first += self._batch


class _Placed(Dataset[Any]):
    """A dataset by places of the run instead of its own indices, with randomness that depends on the place."""

    def __init__(self, dataset: Indexed, order: Order) -> None:
        self._dataset, self._order = dataset, order

    def __getitems__(self, places: list[int]) -> list[Any]:
        indices = self._order.indices(places[0], len(places)).tolist()
        with draws.apart():
            return [self._sample(place, index) for place, index in zip(places, indices, strict=True)]

    def __getitem__(self, place: int) -> Any:
        return self.__getitems__([place])[0]

    def _sample(self, place: int, index: int) -> Any:
        draws.begin(self._order.seed, place)
        return self._dataset[index]
