"""The global norm of a model's gradients on any mesh, and scaling of gradients by it."""

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
    """Return the layout that tensors must share to be summed together: mesh and placements, or None."""
    return (tensor.device_mesh, tensor.placements) if isinstance(tensor, DTensor) else None


def group_by_layout(tensors: Iterable[_Tensor]) -> list[list[_Tensor]]:
    """Group tensors that torch's fused operators can process together."""
    found: dict[Layout, list[_Tensor]] = {}
    for each in tensors:
        found.setdefault(layout_of(each), []).append(each)
    return list(found.values())


def reduce_partial_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """All-reduce partial gradients: those of sequence-parallel norms, of which each rank has a summand.

    One collective for all gradients of a mesh, because they are many and small.
    """
    unsettled = [each for each in parameters if isinstance(each.grad, DTensor) and _is_partial(each.grad)]
    for alike in group_by_layout([each.grad for each in unsettled if isinstance(each.grad, DTensor)]):
        first = alike[0]
        flat = torch.cat([each.to_local().flatten() for each in alike])
        for dimension, placement in enumerate(first.placements):
            if placement.is_partial():
                dist.all_reduce(flat, group=first.device_mesh.get_group(dimension))
        sums = flat.split([each.to_local().numel() for each in alike])
        for each, whole in zip(alike, sums, strict=True):
            each.to_local().copy_(whole.view_as(each.to_local()))
    for parameter in unsettled:
        parameter.grad = _as_replicated(parameter.grad)


def total_norm(parameters: Iterable[nn.Parameter], stages: dist.ProcessGroup | None) -> Tensor:
    """Return the 2-norm of the gradients of the whole model, equal on all ranks; a scalar on the device, fp32.

    `stages`: the ranks that hold the other pipeline stages. A collective over every mesh that has parameters.
    """
    every = list(parameters)
    squares = [
        _sum_of_squares(alike) for alike in group_by_layout(each.grad for each in every if each.grad is not None)
    ]
    # A frozen stage has no gradients, and still takes part in the collective.
    square = torch.stack(squares).sum() if squares else torch.zeros((), device=_device_of(every))
    if stages is not None:
        dist.all_reduce(square, group=stages)
    return square.sqrt()


def scale_gradients(parameters: Iterable[nn.Parameter], factor: Tensor) -> None:
    """Multiply every gradient in place, without waiting for the value of `factor`."""
    for alike in group_by_layout(parameters):
        local: list[Any] = [local_gradient(each.grad) for each in alike if each.grad is not None]
        if local:
            torch._foreach_mul_(local, factor.to(local[0].device))


def clipping_factor(norm: Tensor, most: float) -> Tensor:
    """Return the factor that limits gradients of norm `norm` to `most`; at most 1."""
    return torch.clamp(most / (norm + 1e-6), max=1.0)


def _device_of(parameters: list[nn.Parameter]) -> torch.device:
    return parameters[0].device if parameters else torch.device("cpu")


def _is_partial(gradient: DTensor) -> bool:
    return any(placement.is_partial() for placement in gradient.placements)


def _as_replicated(gradient: Tensor | None) -> DTensor:
    """Return the gradient with the partial placements, which are reduced now, as replicated."""
    assert isinstance(gradient, DTensor)  # noqa: S101 - only DTensors are partial
    placements = [Replicate() if each.is_partial() else each for each in gradient.placements]
    return DTensor.from_local(
        gradient.to_local(), gradient.device_mesh, placements, shape=gradient.shape, stride=gradient.stride()
    )


def _sum_of_squares(alike: list[Tensor]) -> Tensor:
    """Return the sum of squares over all ranks that hold different parts of these tensors, which share a layout."""
    norm = nn.utils.get_total_norm([local_gradient(each) for each in alike])
    square = norm.float() ** 2
    first = alike[0]
    if isinstance(first, DTensor):
        for dimension, placement in enumerate(first.placements):
            if not placement.is_replicate():  # `is_shard` is false for strided shards
                dist.all_reduce(square, group=first.device_mesh.get_group(dimension))
    return square


def local_gradient(gradient: Tensor) -> Tensor:
    """Return this rank's part of a gradient."""
    return gradient.to_local() if isinstance(gradient, DTensor) else gradient
