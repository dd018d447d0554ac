"""The norm of all gradients of a model, wherever they lie, and gradients made smaller by it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate

Layout = Hashable
_Tensor = TypeVar("_Tensor", bound=Tensor)


def layout_of(tensor: Tensor) -> Layout:
    """What tensors must have in common to be added up together: their mesh and placements, or none."""
    return (tensor.device_mesh, tensor.placements) if isinstance(tensor, DTensor) else None


def by_layout(tensors: Iterable[_Tensor]) -> list[list[_Tensor]]:
    """Tensors together that torch's fused operators may touch at once."""
    found: dict[Layout, list[_Tensor]] = {}
    for each in tensors:
        found.setdefault(layout_of(each), []).append(each)
    return list(found.values())


def settle(parameters: Iterable[nn.Parameter]) -> None:
    """Add up the gradients of which each rank has a summand: those of norms between parts of a sequence.

    One collective for all of a mesh, as they are many and small.
    """
    unsettled = [each for each in parameters if isinstance(each.grad, DTensor) and _is_partial(each.grad)]
    for alike in by_layout([each.grad for each in unsettled if isinstance(each.grad, DTensor)]):
        first = alike[0]
        flat = torch.cat([each.to_local().flatten() for each in alike])
        for dimension, placement in enumerate(first.placements):
            if placement.is_partial():
                dist.all_reduce(flat, group=first.device_mesh.get_group(dimension))
        sums = flat.split([each.to_local().numel() for each in alike])
        for each, whole in zip(alike, sums, strict=True):
            each.to_local().copy_(whole.view_as(each.to_local()))
    for parameter in unsettled:
        parameter.grad = _as_whole(parameter.grad)


def total_norm(parameters: Iterable[nn.Parameter], stages: dist.ProcessGroup | None) -> Tensor:
    """The 2-norm of the gradients of the whole model, the same on all ranks; a scalar on the device, fp32.

    `stages`: the ranks that hold the other stages of a pipeline. A collective over every mesh that parameters are on.
    """
    every = list(parameters)
    squares = [_square(alike) for alike in by_layout(each.grad for each in every if each.grad is not None)]
    # A stage that is frozen has none, and still takes part.
    square = torch.stack(squares).sum() if squares else torch.zeros((), device=_device_of(every))
    if stages is not None:
        dist.all_reduce(square, group=stages)
    return square.sqrt()


def scale_gradients(parameters: Iterable[nn.Parameter], factor: Tensor) -> None:
    """Multiply every gradient, in place, without waiting for the factor."""
    for alike in by_layout(parameters):
        local: list[Any] = [local_of(each.grad) for each in alike if each.grad is not None]
        if local:
            torch._foreach_mul_(local, factor.to(local[0].device))


def clipping_factor(norm: Tensor, most: float) -> Tensor:
    """By what gradients of that norm are multiplied to have none larger than `most`; 1 if it is smaller already."""
    return torch.clamp(most / (norm + 1e-6), max=1.0)


def _device_of(parameters: list[nn.Parameter]) -> torch.device:
    return parameters[0].device if parameters else torch.device("cpu")


def _is_partial(gradient: DTensor) -> bool:
    return any(placement.is_partial() for placement in gradient.placements)


def _as_whole(gradient: Tensor | None) -> DTensor:
    """The same numbers, which are sums by now."""
    assert isinstance(gradient, DTensor)  # noqa: S101 - only such are partial
    placements = [Replicate() if each.is_partial() else each for each in gradient.placements]
    return DTensor.from_local(
        gradient.to_local(), gradient.device_mesh, placements, shape=gradient.shape, stride=gradient.stride()
    )


def _square(alike: list[Tensor]) -> Tensor:
    """The sum of squares over all ranks that have different parts of these, which are laid out alike."""
    norm = nn.utils.get_total_norm([local_of(each) for each in alike])
    square = norm.float() ** 2
    first = alike[0]
    if isinstance(first, DTensor):
        for dimension, placement in enumerate(first.placements):
            if not placement.is_replicate():  # strided shards are none to `is_shard`
                dist.all_reduce(square, group=first.device_mesh.get_group(dimension))
    return square


def local_of(gradient: Tensor) -> Tensor:
    """What this rank has of it."""
    return gradient.to_local() if isinstance(gradient, DTensor) else gradient
