"""One rank's state to all others: what replicas have alike. Collectives over a group on gloo.

The rank with most steps gives: a vote can be complete on one rank and cut short on the next, so survivors may be one
step apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from windlass.train.step.optimizer import parameters_of

_AT_ONCE = 32 << 20
"""Bytes that are sent together."""
_FRESH = -1


class Giver(NamedTuple):
    """Which rank gives, and whether anybody needs it."""

    rank: int
    is_needed: bool


def giver(group: dist.ProcessGroup, steps: int | None) -> Giver | None:
    """`steps`: done by this rank, None if it has just been started. None if no rank has any state.

    A collective.
    """
    mine = torch.tensor([_FRESH if steps is None else steps])
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(every, mine, group=group)
    counts = [int(each) for each in every]
    most = max(counts)
    return None if most == _FRESH else Giver(counts.index(most), min(counts) < most)


def share(
    group: dist.ProcessGroup, source: int, modules: Sequence[nn.Module], optimizers: Sequence[torch.optim.Optimizer]
) -> None:
    """Parameters, buffers and optimizers' state of rank `source` to all. A collective."""
    takes = dist.get_rank(group) != source
    layouts = _sent(group, source, [_layout(each) for each in optimizers])
    if takes:
        for optimizer, layout in zip(optimizers, layouts, strict=True):
            _make_room(optimizer, layout)
    tensors = [each.detach() for module in modules for each in (*module.parameters(), *module.buffers())]
    for optimizer, layout in zip(optimizers, layouts, strict=True):
        parameters = parameters_of(optimizer)
        tensors += [optimizer.state[parameters[entry.place]][entry.name] for entry in layout.entries if entry.shape]
    dist._broadcast_coalesced(group, _filled(tensors), _AT_ONCE, source)  # type: ignore[attr-defined]  # noqa: SLF001


def shared(group: dist.ProcessGroup, source: int, told: Any) -> Any:
    """What rank `source` tells, which can be pickled. A collective."""
    return _sent(group, source, told)


class _Entry(NamedTuple):
    place: int
    """Of the parameter."""
    name: str
    shape: tuple[int, ...]
    """Empty for what is sent here and now."""
    dtype: torch.dtype | None
    value: Any


class _Layout(NamedTuple):
    groups: list[dict[str, Any]]
    entries: list[_Entry]


def _layout(optimizer: torch.optim.Optimizer) -> _Layout:
    groups = [{name: value for name, value in each.items() if name != "params"} for each in optimizer.param_groups]
    entries = [
        _entry(place, name, value)
        for place, parameter in enumerate(parameters_of(optimizer))
        for name, value in optimizer.state.get(parameter, {}).items()
    ]
    return _Layout(groups, entries)


def _entry(place: int, name: str, value: Any) -> _Entry:
    if isinstance(value, Tensor) and value.dim():
        return _Entry(place, name, tuple(value.shape), value.dtype, None)
    return _Entry(place, name, (), None, value)


def _make_room(optimizer: torch.optim.Optimizer, layout: _Layout) -> None:
    """Small things are as told; for tensors there is memory."""
    for group, told in zip(optimizer.param_groups, layout.groups, strict=True):
        group.update(told)
    parameters = parameters_of(optimizer)
    for entry in layout.entries:
        parameter = parameters[entry.place]
        state = optimizer.state[parameter]
        if not entry.shape:
            state[entry.name] = entry.value
        elif entry.name not in state:
            state[entry.name] = torch.empty(entry.shape, dtype=entry.dtype, device=parameter.device)


def _filled(tensors: list[Tensor]) -> list[Tensor]:
    return [each for each in tensors if each.numel()]


def _sent(group: dist.ProcessGroup, source: int, told: Any) -> Any:
    box = [told if dist.get_rank(group) == source else None]
    dist.broadcast_object_list(box, src=source, group=group)
    return box[0]
