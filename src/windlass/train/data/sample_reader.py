"""Reads and collates samples, for both kinds of datasets."""

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

from windlass.train.data.batch import MicroBatch, build_micro_batch
from windlass.train.data.batch_split import MicroSlice
from windlass.train.errors import TrainError

_OPEN_ITERATORS: weakref.WeakSet[Any] = weakref.WeakSet()
"""Iterators of loaders that have workers."""


@dataclass(frozen=True, slots=True)
class SampleReader:
    """The settings of reading: device, worker processes for each rank, and collate function."""

    device: torch.device
    workers: int = 0
    collate: Callable[[list[Any]], Any] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Options of torch's DataLoader."""
        return {
            "num_workers": self.workers,
            "pin_memory": self.device.type == "cuda",
            "worker_init_fn": _ignore_signals if self.workers else None,
        }

    @contextlib.contextmanager
    def iterate(self, loader: DataLoader[Any]) -> Iterator[Iterator[Any]]:
        """Iterate over a loader; its workers are stopped at the end of the block."""
        loaded = iter(loader)
        if self.workers:
            _OPEN_ITERATORS.add(loaded)
        try:
            yield loaded
        finally:
            _stop_workers(loaded)

    def read_step(self, loaded: Iterator[Any], micros: Sequence[MicroSlice]) -> tuple[MicroBatch, ...]:
        """Return the micro-batches of one step from a loader that yields them one after the other."""
        return tuple(build_micro_batch(_next_item(loaded), micro.weight, self.device) for micro in micros)


def _next_item(loaded: Iterator[Any]) -> Any:
    """Return the next item. A worker's TrainError carries its traceback as text, which is removed."""
    try:
        return next(loaded)
    except TrainError as error:
        raise TrainError(str(error).rstrip().rpartition("TrainError: ")[2]) from error


def _stop_workers(loaded: Any) -> None:
    """Stop the workers: they ignore SIGTERM, which Python sends at exit before it waits for them."""
    workers = getattr(loaded, "_workers", ())
    if workers:
        loaded._shutdown_workers()  # noqa: SLF001 - torch calls it only when the last reference is gone
    for worker in workers:
        worker.kill()


@atexit.register
def _stop_all_workers() -> None:
    """Stop the workers of iterators that were left early, as by an error."""
    for loaded in list(_OPEN_ITERATORS):
        _stop_workers(loaded)


def _ignore_signals(_worker: int) -> None:
    """Ignore signals to the process group: the rank stops its workers after it has saved."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
