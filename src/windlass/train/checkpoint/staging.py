"""Copies the state into host memory while training continues with what does not change it.

Optimizers change parameters, so training waits for the copy before the optimizer's step. Forward passes change buffers
(running means of a batch norm), so small tensors and named ones are copied immediately.
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

StateDict = dict[str, Any]
_IMMEDIATE_BYTES = 1 << 16
"""Maximum bytes of a tensor that is copied immediately."""


def flatten(state: StateDict) -> StateDict:
    """Return the state by full names ("model.layers.0.weight"), as a checkpoint has them."""
    planner = DefaultSavePlanner()
    planner.set_up_planner(state)
    return planner.state_dict


def device_initializer() -> Callable[[], None]:
    """Return an initializer for later threads, which selects the current GPU; a new thread starts on the first GPU."""
    if not torch.cuda.is_initialized():
        return _keep_device
    device = torch.cuda.current_device()
    return lambda: torch.cuda.set_device(device)


def _keep_device() -> None:
    """Initializer without effect, for CPUs."""


class StagingBuffer:
    """Host memory for one copy of this rank's state; pinned where there is a GPU, and reused by each save."""

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
        self._kept: StateDict = {}
        self._copier = ThreadPoolExecutor(1, thread_name_prefix="stage", initializer=device_initializer())

    def begin(self, state: StateDict, immediate: Collection[str]) -> Future[StateDict]:
        """Start to copy a flattened state. No earlier save may still use the buffer."""
        if self._device:
            torch.accelerator.current_stream().synchronize()  # copies in another stream would overtake it
        plain = {name: _copy_value(value) for name, value in state.items() if _is_simple(value)}
        rest = {name: value for name, value in state.items() if name not in plain}
        now = {
            name: value for name, value in rest.items() if name in immediate or _local_bytes(value) <= _IMMEDIATE_BYTES
        }
        return self._copier.submit(self._finish, {**plain, **self._copy(now)}, rest)

    def abandon(self) -> None:
        """Drop the buffer; its memory is freed when the copying thread has ended."""
        self._copier.shutdown(wait=False)

    def close(self) -> None:
        """Free the memory."""
        self._copier.shutdown()
        self._kept.clear()
        self._maker.close()

    def _finish(self, copied: StateDict, rest: StateDict) -> StateDict:
        return {**copied, **self._copy({name: value for name, value in rest.items() if name not in copied})}

    def _copy(self, part: StateDict) -> StateDict:
        with torch.no_grad(), self._stream:
            copied = {name: self._copy_one(name, value) for name, value in part.items()}
        if isinstance(self._stream, torch.Stream) and part:
            self._stream.synchronize()
        return copied

    def _copy_one(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """Copy into the memory of the last save. `copy_` releases Python's lock, which torch's stager holds."""
        kept = self._kept.get(name)
        if kept is None or not _same_layout(kept, value):
            self._kept[name] = kept = cast("StateDict", self._maker.stage({name: value}))[name]
        else:
            local_part(kept).copy_(local_part(value), non_blocking=self._device)
        return cast("torch.Tensor", kept)


def _is_simple(value: Any) -> bool:
    """Whether the value needs no kept memory: no tensor, or a small whole one on the CPU."""
    if not isinstance(value, torch.Tensor):
        return True
    return type(value) in (torch.Tensor, Parameter) and value.device.type == "cpu" and value.nbytes <= _IMMEDIATE_BYTES


def _copy_value(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else copy.deepcopy(value)


def _same_layout(kept: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether the memory of one tensor fits the other."""
    if (kept.shape, kept.dtype, isinstance(kept, DTensor)) != (value.shape, value.dtype, isinstance(value, DTensor)):
        return False
    if isinstance(kept, DTensor) and isinstance(value, DTensor):
        return kept.placements == value.placements and kept.device_mesh == value.device_mesh
    return True


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """Return this rank's part of a tensor; a plain tensor is returned whole."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _local_bytes(tensor: torch.Tensor) -> int:
    with torch.no_grad():
        return local_part(tensor).nbytes
