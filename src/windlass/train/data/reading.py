"""How samples are read and put together, the same for datasets of either kind."""

from __future__ import annotations

import atexit
import contextlib
import signal
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader

from windlass.train.data.batch import MicroBatch, micro_batch
from windlass.train.data.slices import Micro
from windlass.train.errors import TrainError

_BEGUN: weakref.WeakSet[Any] = weakref.WeakSet()
"""Loaders' iterators that have workers."""


@dataclass(frozen=True, slots=True)
class Reading:
    """`workers`: processes beside this one, for each rank."""

    device: torch.device
    workers: int = 0
    collate: Callable[[list[Any]], Any] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Of torch's DataLoader."""
        return {
            "num_workers": self.workers,
            "pin_memory": self.device.type == "cuda",
            "worker_init_fn": _leave_ending_to_the_rank if self.workers else None,
        }

    @contextlib.contextmanager
    def begun(self, loader: DataLoader[Any]) -> Iterator[Iterator[Any]]:
        """What a loader gives, one after the other. At the end of the block its workers are gone."""
        loaded = iter(loader)
        if self.workers:
            _BEGUN.add(loaded)
        try:
            yield loaded
        finally:
            _end(loaded)

    def step(self, loaded: Iterator[Any], micros: Sequence[Micro]) -> tuple[MicroBatch, ...]:
        """The micro-batches of one step from a loader that gives one after the other."""
        return tuple(micro_batch(_next(loaded), micro.weight, self.device) for micro in micros)


def _next(loaded: Iterator[Any]) -> Any:
    """The next item. A TrainError of a worker comes with its traceback in its text: without that."""
    try:
        return next(loaded)
    except TrainError as error:
        raise TrainError(str(error).rstrip().rpartition("TrainError: ")[2]) from error


def _end(loaded: Any) -> None:
    """Workers hear no SIGTERM, which is what Python ends them with when a rank ends, and then waits for them."""
    workers = getattr(loaded, "_workers", ())
    if workers:
        loaded._shutdown_workers()  # noqa: SLF001 - torch does it when the last reference has gone, if that ever comes
    for worker in workers:
        worker.kill()


@atexit.register
def _end_all() -> None:
    """Of batches that were left in the middle, as by an error."""
    for loaded in list(_BEGUN):
        _end(loaded)


def _leave_ending_to_the_rank(_worker: int) -> None:
    """A signal to the whole group means the rank, which ends its workers when it has saved."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
