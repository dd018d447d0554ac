"""Writes which rank holds which piece of the model, and what it sends on which axis. This file needs no change."""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

AXES = ("pp", "dp", "tp")


class PieceReport:
    """The place of this rank in the mesh, the shapes that it holds, its losses, and its messages of the last step."""

    def __init__(self, mesh: Any, model: Any) -> None:
        self.degrees = {axis: getattr(mesh.degrees, axis) for axis in AXES}
        groups = {axis: mesh.group(axis) for axis in AXES}
        self.axes = {group.group_name: axis for axis, group in groups.items() if group is not None}
        self.own = {axis: getattr(mesh.coordinates, axis) for axis in AXES}
        self.shapes = {name: list(_local(parameter).shape) for name, parameter in _parameters(model)}
        self.losses: list[float] = []
        self.sent: dict[str, dict[str, int]] = {}

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        with MessageCounter(self.axes) as counter:
            yield
        self.sent = counter.sent

    def step(self, loss: Tensor) -> None:
        """Note the mean loss of a step. Ranks without the last stage have no share of it."""
        mean = loss.detach().double() / (self.degrees["dp"] * self.degrees["tp"])
        if dist.is_initialized():
            dist.all_reduce(mean)
        self.losses.append(mean.item())

    def write(self) -> None:
        """Gather the reports of all ranks into one file."""
        own = {**self.own, "node": int(os.environ.get("GROUP_RANK", "0")), "shapes": self.shapes, "sent": self.sent}
        ranks: list[Any] = [own]
        if dist.is_initialized():
            ranks = [None] * dist.get_world_size()
            dist.all_gather_object(ranks, own)
        if not dist.is_initialized() or dist.get_rank() == 0:
            _write({"mesh": self.degrees, "losses": self.losses, "ranks": ranks})


class MessageCounter(TorchDispatchMode):
    """Counts the collectives and sends of a step by the axis of their group, and their bytes."""

    def __init__(self, axes: dict[str, str]) -> None:
        super().__init__()
        self.axes = axes
        self.sent = {axis: {"messages": 0, "bytes": 0} for axis in axes.values()}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        if "c10d" in name and "wait" not in name and "recv" not in name:
            self._count(args)
        return func(*args, **(kwargs or {}))

    def _count(self, args: Any) -> None:
        axis = next((self.axes[name] for each in args if (name := _group_name(each)) in self.axes), None)
        if axis is not None:
            tensors = [each for each in _flat(args) if isinstance(each, Tensor)]
            self.sent[axis]["messages"] += 1
            self.sent[axis]["bytes"] += max((each.numel() * each.element_size() for each in tensors), default=0)


def _group_name(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, torch.ScriptObject):
        with contextlib.suppress(RuntimeError):
            return dist.ProcessGroup.unbox(value).group_name
    return ""


def _flat(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flat(value)
        else:
            yield value


def _write(run: dict[str, Any]) -> None:
    text = json.dumps(run)
    name = f"runs/{os.environ.get('WINDLASS_JOB_ID', 'process')}.json"
    Path("runs").mkdir(exist_ok=True)
    Path(name).write_text(text)
    for rank, each in enumerate(run["ranks"]):
        elements = sum(torch.Size(shape).numel() for shape in each["shapes"].values())
        place = " ".join(f"{axis}={each[axis]}" for axis in AXES)
        print(f"rank {rank} on node {each['node']}  {place}  {elements:6d} elements, {_range(each['shapes'])}")
    for axis, sent in run["ranks"][-1]["sent"].items():
        print(f"the last rank sends in a step on {axis}: {sent['messages']} messages, {sent['bytes']} bytes")
    print(f"losses {' '.join(f'{loss:.6f}' for loss in run['losses'])}")
    print(f"wrote {name} {hashlib.sha256(text.encode()).hexdigest()[:16]}", flush=True)


def _range(shapes: dict[str, list[int]]) -> str:
    matrices = [f"{name} {list(shape)}" for name, shape in shapes.items() if len(shape) > 1]
    return f"{matrices[0]} to {matrices[-1]}"


def _parameters(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    yield from model.module.named_parameters()


def _local(value: Any) -> Tensor:
    return value.to_local() if isinstance(value, DTensor) else value
