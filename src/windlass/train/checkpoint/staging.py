"""A copy of the state in host memory, taken while training goes on with what does not change it.

Optimizers change parameters, so whoever trains waits for the copy before the optimizer steps. Forward passes change
buffers (running means of a batch norm), so those are copied at once: whatever is small, and what is named.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from concurrent.futures import Future
from typing import Any, cast

import torch
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

State = dict[str, Any]
_AT_ONCE = 1 << 16
"""Bytes of memory up to which a tensor is copied at once."""


def flattened(state: State) -> State:
    """The same by whole names ("model.layers.0.weight"), as a checkpoint has them."""
    planner = DefaultSavePlanner()
    planner.set_up_planner(state)
    return planner.state_dict


class Stage:
    """Host memory for one copy of the state of this rank; pinned where there is a GPU, and used again by each save."""

    def __init__(self) -> None:
        self._device = torch.accelerator.is_available()
        options = StagingOptions(
            use_pinned_memory=self._device, use_shared_memory=False, use_non_blocking_copy=self._device
        )
        self._stager = DefaultStager(options)

    def begin(self, state: State, at_once: Collection[str]) -> Future[State]:
        """Copy a flattened state. Nothing of it may be in use by an earlier save any more."""
        if self._device:
            torch.accelerator.current_stream().synchronize()  # copies run beside what is queued, and would overtake it
        plain = {name: _copied(value) for name, value in state.items() if _is_plain(value, named=name in at_once)}
        small = {n: v for n, v in state.items() if n not in plain and (n in at_once or _memory(v) <= _AT_ONCE)}
        copied = {**plain, **(self._submit(small).result() if small else {})}
        return _joined(copied, self._submit({name: v for name, v in state.items() if name not in copied}))

    def close(self) -> None:
        """Give the memory back."""
        self._stager.close()

    def _submit(self, part: State) -> Future[State]:
        return cast("Future[State]", self._stager.stage(part))


def _is_plain(value: Any, *, named: bool) -> bool:
    """Copied by a single call, much faster than the stager does it: no tensor, or a small whole one on the CPU."""
    if not isinstance(value, torch.Tensor):
        return True
    whole = type(value) in (torch.Tensor, torch.nn.Parameter) and value.device.type == "cpu"
    return whole and (named or value.nbytes <= _AT_ONCE)


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else copy.deepcopy(value)


def _memory(tensor: torch.Tensor) -> int:
    local = tensor.to_local() if isinstance(tensor, torch.distributed.tensor.DTensor) else tensor
    return local.untyped_storage().nbytes()


def _joined(copied: State, rest: Future[State]) -> Future[State]:
    """Both parts as one."""
    whole: Future[State] = Future()

    def finish(done: Future[State]) -> None:
        if error := done.exception():
            whole.set_exception(error)
        else:
            whole.set_result({**copied, **done.result()})

    rest.add_done_callback(finish)
    return whole
