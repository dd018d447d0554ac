"""The optimizer of a model on a mesh: reduce partial gradients, measure their norm, clip, and step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from windlass.train.step.gradient_norm import (
    clipping_factor,
    group_by_layout,
    reduce_partial_gradients,
    scale_gradients,
    total_norm,
)

GroupBuilder = Callable[[nn.Module], list[dict[str, Any]]]
"""Function from a model to parameter groups, as torch's optimizers take them."""

_GROWTH, _BACKOFF, _GROWTH_INTERVAL_STEPS = 2.0, 0.5, 2000


@dataclass(frozen=True, slots=True)
class LossScale:
    """Loss scaling for fp16: the factor of the loss before the backward pass, and the number of finite steps with it.

    A step is finite if the global gradient norm is, so the scale is the same on every rank of any mesh. Immutable.
    Source: Micikevicius et al. 2018; the constants are those of torch.amp.GradScaler.
    """

    factor: float = 65536.0
    steps: int = 0

    def after(self, *, finite: bool) -> LossScale:
        """Return the scale of the next step. A step that is not finite is skipped and halves the factor."""
        if not finite:
            return LossScale(self.factor * _BACKOFF)
        if self.steps + 1 == _GROWTH_INTERVAL_STEPS:
            return LossScale(self.factor * _GROWTH)
        return replace(self, steps=self.steps + 1)


NO_SCALING = LossScale(1.0)


def build_optimizer(
    kind: Callable[..., torch.optim.Optimizer], module: nn.Module, groups: GroupBuilder | None, options: dict[str, Any]
) -> torch.optim.Optimizer:
    """Build the optimizer with a group for each layout: torch's fused steps cannot mix sharded and plain parameters."""
    asked = groups(module) if groups else [{"params": list(module.parameters())}]
    split = [{**group, "params": alike} for group in asked for alike in group_by_layout(group["params"])]
    return kind(split, **options)


def parameters_of(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    """Return all parameters of an optimizer."""
    return [each for group in optimizer.param_groups for each in group["params"]]


def reduce_gradients_and_norm(
    optimizer: torch.optim.Optimizer, stages: dist.ProcessGroup | None, scale: float
) -> Tensor:
    """Reduce partial gradients and return the global norm without the loss scale, equal on all ranks. A collective."""
    parameters = parameters_of(optimizer)
    reduce_partial_gradients(parameters)
    return total_norm(parameters, stages) / scale


def clip_and_step(optimizer: torch.optim.Optimizer, norm: Tensor | None, clip: float | None, scale: float) -> None:
    """Clip by the norm, divide by the loss scale, and step."""
    factor = torch.tensor(1.0 / scale)
    if clip is not None and norm is not None:
        factor = clipping_factor(norm, clip) / scale
    if clip is not None or scale != 1.0:
        scale_gradients(parameters_of(optimizer), factor)
    optimizer.step()
