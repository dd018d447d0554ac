"""All that a checkpoint has, by the names that the whole model gives its parts."""

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

from windlass.train.data.loader import Data
from windlass.train.data.stream import Stream
from windlass.train.errors import TrainError
from windlass.train.parallel.model import ParallelModel

_OPTIONS = StateDictOptions(flatten_optimizer_state_dict=True)
"""By parameter, not by group: groups are numbered anew on each stage of a pipeline and each layout."""


@runtime_checkable
class Stateful(Protocol):
    """What can be kept beside the model: a schedule of learning rates, an average of weights."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that is needed to go on."""

    def load_state_dict(self, state: Any, /) -> Any:
        """Go on from there."""


@dataclass(frozen=True, slots=True)
class State:
    """A model, its optimizer, its data, and more. Parts of the model lie where the mesh has put them."""

    model: ParallelModel
    optimizer: torch.optim.Optimizer
    data: Data | Stream
    more: Mapping[str, Stateful]

    def tensors(self) -> dict[str, Any]:
        """Nested names → tensors as they are on this rank, and values that are the same on all ranks."""
        module = self.model.module
        return {
            "model": get_model_state_dict(module, options=_OPTIONS),
            "optimizer": get_optimizer_state_dict(module, self.optimizer, options=_OPTIONS),
            "data": self.data.state_dict(),
            **{name: each.state_dict() for name, each in self.more.items()},
        }

    def take(self, tensors: Mapping[str, Any]) -> None:
        """Be what was loaded into what `tensors` gave."""
        module = self.model.module
        set_model_state_dict(module, tensors["model"], options=_OPTIONS)
        set_optimizer_state_dict(module, self.optimizer, tensors["optimizer"], options=_OPTIONS)
        self.data.load_state_dict(tensors["data"])
        for name, each in self.more.items():
            loaded = tensors[name]
            each.load_state_dict(self._for_groups(loaded) if isinstance(each, LRScheduler) else loaded)

    def _for_groups(self, loaded: Mapping[str, Any]) -> dict[str, Any]:
        """A schedule's learning rates for the groups that the optimizer has here: another mesh, other layouts.

        Raises TrainError where groups had different ones, as nobody could say which is whose.
        """
        count = len(self.optimizer.param_groups)
        fitted = dict(loaded)
        for name in ("base_lrs", "_last_lr"):
            rates = list(loaded.get(name, ()))
            if rates and len(rates) != count:
                if len(set(rates)) > 1:
                    raise TrainError(
                        f"the checkpoint's schedule has {len(rates)} groups with rates of their own, and on this mesh "
                        f"there are {count}: go on on the mesh that it was saved on"
                    )
                fitted[name] = rates[:1] * count
        return fitted
