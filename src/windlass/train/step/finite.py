"""Whether a step's numbers are numbers, without waiting for a GPU before all ranks have voted."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from windlass.train.step.clip import local_of


class Trouble:
    """A flag on the device: the loss, or a gradient that this rank holds, is no number.

    On the CPU it is known at once, and goes with the vote. On a GPU it is agreed on in the GPU's own stream, and read
    where the step waits for the GPU anyway: before the optimizer moves.
    """

    def __init__(self, loss: Tensor | None, parameters: Iterable[nn.Parameter], device: torch.device) -> None:
        """`parameters`: whose gradients are looked at; none where their norm is going to be known."""
        seen = [_norm(parameters, device), *([] if loss is None else [loss.detach().to(device)])]
        self._flag = (~torch.isfinite(torch.stack([each.float() for each in seen]))).any().to(torch.int32)
        self._is_late = device.type == "cuda"

    @property
    def known(self) -> bool:
        """What can be said without waiting."""
        return not self._is_late and bool(self._flag)

    def spread(self) -> None:
        """Have all ranks know. A collective on GPUs, not waited for; on the CPU the vote does it."""
        if self._is_late:
            dist.all_reduce(self._flag, dist.ReduceOp.MAX)

    def known_late(self) -> bool:
        """What all ranks know after `spread`, beside what they voted. Waits for the GPU."""
        return self._is_late and bool(self._flag)


def _norm(parameters: Iterable[nn.Parameter], device: torch.device) -> Tensor:
    """Of the gradients on this rank: no number if one of them is none."""
    gradients = [_values(local_of(each.grad)) for each in parameters if each.grad is not None]
    return nn.utils.get_total_norm(gradients) if gradients else torch.zeros((), device=device)


def _values(gradient: Tensor) -> Tensor:
    return gradient.coalesce().values() if gradient.is_sparse else gradient
