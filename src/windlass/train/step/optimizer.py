"""The optimizer of a model on a mesh, and its step: settle, measure, agree, clip, move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from windlass.train.step.clip import by_layout, clipping_factor, scale_gradients, settle, total_norm

Groups = Callable[[nn.Module], list[dict[str, Any]]]
"""From a model to parameter groups, as torch's optimizers take them."""

_GROWTH, _BACKOFF, _INTERVAL = 2.0, 0.5, 2000


@dataclass(frozen=True, slots=True)
class LossScale:
    """By what a loss is multiplied before the backward pass, and how long that has gone well."""

    factor: float = 65536.0
    steps: int = 0

    def after(self, *, finite: bool) -> LossScale:
        """The next step's. One that was not finite is not taken."""
        if not finite:
            return LossScale(self.factor * _BACKOFF)
        if self.steps + 1 == _INTERVAL:
            return LossScale(self.factor * _GROWTH)
        return replace(self, steps=self.steps + 1)


NO_SCALING = LossScale(1.0)


def optimizer_of(
    kind: Callable[..., torch.optim.Optimizer], module: nn.Module, groups: Groups | None, options: dict[str, Any]
) -> torch.optim.Optimizer:
    """One group for each layout: torch's fused steps cannot mix sharded and plain parameters."""
    asked = groups(module) if groups else [{"params": list(module.parameters())}]
    split = [{**group, "params": alike} for group in asked for alike in by_layout(group["params"])]
    return kind(split, **options)


def parameters_of(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    """All that it moves."""
    return [each for group in optimizer.param_groups for each in group["params"]]


def measured(optimizer: torch.optim.Optimizer, stages: dist.ProcessGroup | None, scale: float) -> Tensor:
    """Complete the gradients. Returns their norm, without the loss's scale, the same on all ranks. A collective."""
    parameters = parameters_of(optimizer)
    settle(parameters)
    return total_norm(parameters, stages) / scale


def moved(optimizer: torch.optim.Optimizer, norm: Tensor | None, clip: float | None, scale: float) -> None:
    """Clip by the norm, take the loss's scale away, and step."""
    factor = torch.tensor(1.0 / scale)
    if clip is not None and norm is not None:
        factor = clipping_factor(norm, clip) / scale
    if clip is not None or scale != 1.0:
        scale_gradients(parameters_of(optimizer), factor)
    optimizer.step()
