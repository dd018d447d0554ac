"""Checks the loss and gradients of a step for NaN and infinity, without waiting for a GPU before the step consensus."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from windlass.train.step.gradient_norm import local_gradient


class FiniteCheck:
    """A flag on the device that is set if the loss or a gradient of this rank is NaN or infinite.

    On the CPU the flag is known at once and is part of the step report. On a GPU it is all-reduced in the GPU's stream,
    and read where the step waits for the GPU anyway: before the optimizer's step.
    """

    def __init__(self, loss: Tensor | None, parameters: Iterable[nn.Parameter], device: torch.device) -> None:
        """`parameters`: those whose gradients are checked; none where the gradient norm is computed anyway."""
        seen = [_local_norm(parameters, device), *([] if loss is None else [loss.detach().to(device)])]
        self._flag = (~torch.isfinite(torch.stack([each.float() for each in seen]))).any().to(torch.int32)
        self._is_late = device.type == "cuda"

    @property
    def local_result(self) -> bool:
        """The result that needs no wait."""
        return not self._is_late and bool(self._flag)

    def start_all_reduce(self) -> None:
        """Start the all-reduce of the flag on GPUs, without waiting; on the CPU the step consensus does it.

        A collective.
        """
        if self._is_late:
            dist.all_reduce(self._flag, dist.ReduceOp.MAX)

    def device_result(self) -> bool:
        """Return the all-reduced flag, beyond the step report. Waits for the GPU."""
        return self._is_late and bool(self._flag)


def _local_norm(parameters: Iterable[nn.Parameter], device: torch.device) -> Tensor:
    """Return the norm of this rank's gradients: not finite if one of them is not."""
    gradients = [_dense_values(local_gradient(each.grad)) for each in parameters if each.grad is not None]
    return nn.utils.get_total_norm(gradients) if gradients else torch.zeros((), device=device)


def _dense_values(gradient: Tensor) -> Tensor:
    return gradient.coalesce().values() if gradient.is_sparse else gradient
