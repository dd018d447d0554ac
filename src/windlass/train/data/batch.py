"""The samples of one rank for one step, in micro-batches: inputs, targets, and weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from windlass.train.errors import TrainError

TARGET_NAMES = ("labels", "target", "targets")


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Samples that pass through the model at once. Tensors have the samples along dimension 0."""

    inputs: tuple[Any, ...]
    named: Mapping[str, Any]
    targets: Any
    weight: float
    """Weight of its mean loss: see `batch_split.MicroSlice`."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One global batch, as one rank sees it."""

    step: int
    """Index of the step that this batch is for, from 0."""
    micros: tuple[MicroBatch, ...]
    indices: tuple[int, ...] = field(default=(), repr=False)
    """Indices of this rank's samples in the dataset; empty for an iterable one."""

    def joined(self) -> tuple[tuple[Any, ...], Any]:
        """Return inputs and targets of all micro-batches together, for a pipeline, which splits them again.

        Raises TrainError if inputs are named: stages take positional inputs only.
        """
        if any(micro.named for micro in self.micros):
            raise TrainError(
                "pp: stages take positional inputs; the dataset must return (input, target), not a mapping"
            )
        columns = zip(*(micro.inputs for micro in self.micros), strict=True)
        return tuple(torch.cat(list(each)) for each in columns), torch.cat([micro.targets for micro in self.micros])


def build_micro_batch(collated: Any, weight: float, device: torch.device) -> MicroBatch:
    """Build a micro-batch from collated samples: (inputs…, target), or a mapping with `labels` or `target`.

    Raises TrainError for anything else.
    """
    moved = _to_device(collated, device)
    if isinstance(moved, Mapping):
        key = next((name for name in TARGET_NAMES if name in moved), None)
        if key is None:
            raise TrainError(f"a sample has {', '.join(map(str, moved))}: name the target 'labels'")
        return MicroBatch((), {name: each for name, each in moved.items() if name != key}, moved[key], weight)
    if isinstance(moved, Sequence) and len(moved) > 1:
        return MicroBatch(tuple(moved[:-1]), {}, moved[-1], weight)
    raise TrainError(f"a sample is a {type(collated).__name__}: the dataset must return (input, target), or a mapping")


def _to_device(found: Any, device: torch.device) -> Any:
    if isinstance(found, Tensor):
        return found.to(device, non_blocking=True)
    if isinstance(found, Mapping):
        return {name: _to_device(each, device) for name, each in found.items()}
    if isinstance(found, tuple | list):
        return tuple(_to_device(each, device) for each in found)
    return found
