"""A copy of the state in host memory, taken while training goes on with what does not change it.

Optimizers change parameters, so whoever trains waits for the copy before the optimizer steps. Forward passes change
buffers (running means of a batch norm), so those are copied at once: whatever is small, and what is named.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import torch
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.tensor import DTensor
from torch.nn import Parameter

State = dict[str, Any]
_AT_ONCE = 1 << 16
"""Bytes up to which a tensor is copied at once."""


def flattened(state: State) -> State:
    """The same by whole names ("model.layers.0.weight"), as a checkpoint has them."""
    planner = DefaultSavePlanner()
    planner.set_up_planner(state)
    return planner.state_dict


def on_this_device() -> Callable[[], None]:
    """For a thread that is made later: to use the GPU that this rank uses now. A new thread's is the first one."""
    if not torch.cuda.is_initialized():
        return _nothing
    device = torch.cuda.current_device()
    return lambda: torch.cuda.set_device(device)


def _nothing() -> None:
    """There is no GPU."""


class Stage:
    """Host memory for one copy of the state of this rank; pinned where there is a GPU, and used again by each save."""

    def __init__(self) -> None:
        self._device = torch.accelerator.is_available()
        self._stream = torch.Stream() if self._device else contextlib.nullcontext()
        options = StagingOptions(
            use_pinned_memory=self._device,
            use_shared_memory=False,
            use_async_staging=False,
            use_non_blocking_copy=False,
        )
        self._maker = DefaultStager(options)
        self._kept: State = {}
        self._copier = ThreadPoolExecutor(1, thread_name_prefix="stage", initializer=on_this_device())

    def begin(self, state: State, at_once: Collection[str]) -> Future[State]:
        """Copy a flattened state. Nothing of it may be in use by an earlier save any more."""
        if self._device:
            torch.accelerator.current_stream().synchronize()  # copies run beside what is queued, and would overtake it
        plain = {name: _copied(value) for name, value in state.items() if _is_plain(value)}
        rest = {name: value for name, value in state.items() if name not in plain}
        now = {name: value for name, value in rest.items() if name in at_once or _memory(value) <= _AT_ONCE}
        return self._copier.submit(self._finish, {**plain, **self._copy(now)}, rest)

    def abandon(self) -> None:
        """The memory goes when whoever still copies into it has ended."""
        self._copier.shutdown(wait=False)

    def close(self) -> None:
        """Give the memory back."""
        self._copier.shutdown()
        self._kept.clear()
        self._maker.close()

    def _finish(self, copied: State, rest: State) -> State:
        return {**copied, **self._copy({name: value for name, value in rest.items() if name not in copied})}

    def _copy(self, part: State) -> State:
        with torch.no_grad(), self._stream:
            copied = {name: self._copy_one(name, value) for name, value in part.items()}
        if isinstance(self._stream, torch.Stream) and part:
            self._stream.synchronize()
        return copied

    def _copy_one(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """Into the memory of the last save. Tensors copy without Python's lock, which torch's stager holds."""
        kept = self._kept.get(name)
        if kept is None or not _alike(kept, value):
            self._kept[name] = kept = cast("State", self._maker.stage({name: value}))[name]
        else:
            local_part(kept).copy_(local_part(value), non_blocking=self._device)
        return cast("torch.Tensor", kept)


def _is_plain(value: Any) -> bool:
    """Needs no memory that is kept: no tensor, or a small whole one on the CPU."""
    if not isinstance(value, torch.Tensor):
        return True
    return type(value) in (torch.Tensor, Parameter) and value.device.type == "cpu" and value.nbytes <= _AT_ONCE


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else copy.deepcopy(value)


def _alike(kept: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether the memory of one fits the other."""
    if (kept.shape, kept.dtype, isinstance(kept, DTensor)) != (value.shape, value.dtype, isinstance(value, DTensor)):
        return False
    if isinstance(kept, DTensor) and isinstance(value, DTensor):
        return kept.placements == value.placements and kept.device_mesh == value.device_mesh
    return True


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank has of a tensor; all of it if it is a plain one."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _memory(tensor: torch.Tensor) -> int:
    with torch.no_grad():
        return local_part(tensor).nbytes
