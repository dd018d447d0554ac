"""The state that a checkpoint holds, under the names that the whole model gives to its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.optim.lr_scheduler import LRScheduler

from windlass.train.data.loader import Loader
from windlass.train.errors import TrainError
from windlass.train.parallel.model import ParallelModel

_OPTIONS = StateDictOptions(flatten_optimizer_state_dict=True)
"""Keyed by parameter, not by group: groups are numbered differently on each pipeline stage and layout."""


@runtime_checkable
class Stateful(Protocol):
    """An object that is saved beside the model, such as a learning-rate schedule or an average of weights."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything that resuming needs."""

    def load_state_dict(self, state: Any, /) -> Any:
        """Restore a state that `state_dict` returned."""


@dataclass(frozen=True, slots=True)
class TrainingState:
    """A model, its optimizer, its data and further objects. Parts of the model stay where the mesh has placed them."""

    model: ParallelModel
    optimizer: torch.optim.Optimizer
    data: Loader
    more: Mapping[str, Stateful]

    def tensors(self) -> dict[str, Any]:
        """Return nested names → tensors as they are on this rank, and values that are equal on all ranks."""
        module = self.model.module
        return {
            "model": get_model_state_dict(module, options=_OPTIONS),
            "optimizer": get_optimizer_state_dict(module, self.optimizer, options=_OPTIONS),
            "data": self.data.state_dict(),
            **{name: each.state_dict() for name, each in self.more.items()},
        }

    def take(self, tensors: Mapping[str, Any]) -> None:
        """Restore the state from `tensors`, loaded into the result of `tensors()`."""
        module = self.model.module
        set_model_state_dict(module, tensors["model"], options=_OPTIONS)
        set_optimizer_state_dict(module, self.optimizer, tensors["optimizer"], options=_OPTIONS)
        self.data.load_state_dict(tensors["data"])
        for name, each in self.more.items():
            loaded = tensors[name]
            each.load_state_dict(self._for_groups(loaded) if isinstance(each, LRScheduler) else loaded)

    def _for_groups(self, loaded: Mapping[str, Any]) -> dict[str, Any]:
        """Fit a schedule's learning rates to the parameter groups of this mesh, whose number differs with the layout.

        Raises TrainError where the groups had different rates, because they cannot be matched to the new groups.
        """
        count = len(self.optimizer.param_groups)
        fitted = dict(loaded)
        for name in ("base_lrs", "_last_lr"):
            rates = list(loaded.get(name, ()))
            if rates and len(rates) != count:
                if len(set(rates)) > 1:
                    raise TrainError(
                        f"the checkpoint's schedule has {len(rates)} groups with different rates, and this mesh has "
                        f"{count}: continue on the mesh that it was saved on"
                    )
                fitted[name] = rates[:1] * count
        return fitted
