"""Saves, when a step begins, the state that may change before the step is aborted; `in_place` restores it.

Parameters and the optimizer's averages change at the very end of a step and need no copy. Buffers change in the forward
pass, learning-rate schedules whenever a script steps them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from windlass.train.parallel.model import ParallelModel

_MAX_BYTES = 64 << 20
"""Maximum bytes of buffers and further state: a larger copy would slow down each step."""


class _SavedBuffer(NamedTuple):
    """A buffer, which a script may change in place or replace; None for a registered buffer that is unset."""

    buffer: Tensor | None
    version: int
    """torch's counter of in-place changes."""
    saved: Tensor | None


class StepSnapshot:
    """Snapshot of buffers, optimizer options and further checkpoint state. The run counts completed steps only."""

    def __init__(
        self,
        models: Sequence[ParallelModel],
        optimizers: Sequence[torch.optim.Optimizer],
        more: Mapping[str, Any],
    ) -> None:
        self._models, self._optimizers, self._more = models, optimizers, more
        self._buffers: dict[tuple[nn.Module, str], _SavedBuffer] = {}
        self._groups: list[list[dict[str, Any]]] = []
        self._states: dict[str, Any] = {}

    @property
    def is_small(self) -> bool:
        """Whether a copy at each step is affordable."""
        buffers = [buffer for model in self._models for buffer in model.module.buffers()]
        tensors = [*buffers, *_tensors_in([each.state_dict() for each in self._more.values()])]
        return sum(each.nbytes for each in tensors) <= _MAX_BYTES

    def take(self) -> None:
        """Save the current state, when a step begins."""
        self._groups = [
            [
                {name: _copy_value(value) for name, value in group.items() if name != "params"}
                for group in each.param_groups
            ]
            for each in self._optimizers
        ]
        self._states = {name: copy.deepcopy(each.state_dict()) for name, each in self._more.items()}
        self._buffers = {key: _save_buffer(buffer, self._buffers.get(key)) for key, buffer in self._all_buffers()}

    def restore(self) -> None:
        """Restore the saved state and drop gradients."""
        for optimizer, groups in zip(self._optimizers, self._groups, strict=True):
            optimizer.zero_grad(set_to_none=True)
            for group, kept in zip(optimizer.param_groups, groups, strict=True):
                group.update(kept)
        for name, state in self._states.items():
            self._more[name].load_state_dict(state)
        for (owner, name), (buffer, _, saved) in self._buffers.items():
            if buffer is not None and saved is not None:
                buffer.detach().copy_(saved)
            owner._buffers[name] = buffer  # noqa: SLF001 - torch has no public setter

    def _all_buffers(self) -> list[tuple[tuple[nn.Module, str], Tensor | None]]:
        owners = [owner for model in self._models for owner in model.module.modules()]
        return [((owner, name), buffer) for owner in owners for name, buffer in owner._buffers.items()]  # noqa: SLF001


def _save_buffer(buffer: Tensor | None, before: _SavedBuffer | None) -> _SavedBuffer:
    """Copy a buffer only if it has changed since the last copy."""
    if buffer is None:
        return _SavedBuffer(None, 0, None)
    if before is not None and before.buffer is buffer and before.version == buffer._version:  # noqa: SLF001
        return before
    return _SavedBuffer(buffer, buffer._version, buffer.detach().clone())  # noqa: SLF001


def _copy_value(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def _tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [tensor for part in parts for tensor in _tensors_in(part)]
