"""One step's samples of one rank, in micro-batches: inputs, targets, and what each counts for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from windlass.train.errors import TrainError

TARGETS = ("labels", "target", "targets")


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What goes through the model at once. Tensors have the samples along dimension 0."""

    inputs: tuple[Any, ...]
    named: Mapping[str, Any]
    targets: Any
    weight: float
    """What its mean loss counts for: see `slices.Micro`."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One global batch, as one rank sees it."""

    step: int
    """From 0: which step this batch is for."""
    micros: tuple[MicroBatch, ...]
    indices: tuple[int, ...] = field(default=(), repr=False)
    """The samples of this rank in the dataset; empty for an iterable one."""

    def joined(self) -> tuple[tuple[Any, ...], Any]:
        """Inputs and targets of all micro-batches together, for a pipeline, which cuts them again.

        Raises TrainError if inputs are named: stages take positions only.
        """
        if any(micro.named for micro in self.micros):
            raise TrainError("pp: stages take inputs by position; let the dataset give (input, target), not a mapping")
        columns = zip(*(micro.inputs for micro in self.micros), strict=True)
        return tuple(torch.cat(list(each)) for each in columns), torch.cat([micro.targets for micro in self.micros])


def micro_batch(collated: Any, weight: float, device: torch.device) -> MicroBatch:
    """From what a dataset's samples were collated to: (inputs…, target), or a mapping with `labels` or `target`.

    Raises TrainError for anything else.
    """
    moved = _moved(collated, device)
    if isinstance(moved, Mapping):
        key = next((name for name in TARGETS if name in moved), None)
        if key is None:
            raise TrainError(f"a sample has {', '.join(map(str, moved))}: name what is to be learnt 'labels'")
        return MicroBatch((), {name: each for name, each in moved.items() if name != key}, moved[key], weight)
    if isinstance(moved, Sequence) and len(moved) > 1:
        return MicroBatch(tuple(moved[:-1]), {}, moved[-1], weight)
    raise TrainError(f"a sample is a {type(collated).__name__}: let the dataset give (input, target), or a mapping")


def _moved(found: Any, device: torch.device) -> Any:
    if isinstance(found, Tensor):
        return found.to(device, non_blocking=True)
    if isinstance(found, Mapping):
        return {name: _moved(each, device) for name, each in found.items()}
    if isinstance(found, tuple | list):
        return tuple(_moved(each, device) for each in found)
    return found
