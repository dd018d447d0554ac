"""One rank's state to all others: what replicas have alike. Collectives over a group on gloo.

The rank with most steps gives: a vote can be complete on one rank and cut short on the next, so survivors may be one
step apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from windlass.train.state import Stateful
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
    """Parameters, buffers and what optimizers know of each parameter, of rank `source`, to all. A collective."""
    takes = dist.get_rank(group) != source
    layouts = sent(group, source, [_layout(each) for each in optimizers])
    if takes:
        for optimizer, layout in zip(optimizers, layouts, strict=True):
            _make_room(optimizer, layout)
    tensors = [each.detach() for module in modules for each in (*module.parameters(), *module.buffers())]
    for optimizer, layout in zip(optimizers, layouts, strict=True):
        parameters = parameters_of(optimizer)
        tensors += [optimizer.state[parameters[entry.place]][entry.name] for entry in layout if entry.shape]
    dist._broadcast_coalesced(group, _filled(tensors), _AT_ONCE, source)  # type: ignore[attr-defined]  # noqa: SLF001


def share_small(
    group: dist.ProcessGroup,
    source: int,
    parts: Mapping[str, Stateful],
    optimizers: Sequence[torch.optim.Optimizer],
) -> None:
    """What `parts` are like on rank `source`, and optimizers' rates, to all. A collective."""
    states = {name: each.state_dict() for name, each in parts.items()}
    rates = [[_without_parameters(each) for each in optimizer.param_groups] for optimizer in optimizers]
    states, rates = sent(group, source, (states, rates))
    if dist.get_rank(group) == source:
        return
    for name, part in parts.items():
        part.load_state_dict(states[name])
    for optimizer, told in zip(optimizers, rates, strict=True):
        for mine, theirs in zip(optimizer.param_groups, told, strict=True):
            mine.update(theirs)


def sent(group: dist.ProcessGroup, source: int, told: Any) -> Any:
    """What rank `source` tells, which can be pickled. A collective."""
    box = [told if dist.get_rank(group) == source else None]
    dist.broadcast_object_list(box, src=source, group=group)
    return box[0]


class _Entry(NamedTuple):
    place: int
    """Of the parameter."""
    name: str
    shape: tuple[int, ...]
    """Empty for what is sent here and now."""
    dtype: torch.dtype | None
    value: Any


def _without_parameters(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "params"}


def _layout(optimizer: torch.optim.Optimizer) -> list[_Entry]:
    return [
        _entry(place, name, value)
        for place, parameter in enumerate(parameters_of(optimizer))
        for name, value in optimizer.state.get(parameter, {}).items()
    ]


def _entry(place: int, name: str, value: Any) -> _Entry:
    if isinstance(value, Tensor) and value.dim():
        return _Entry(place, name, tuple(value.shape), value.dtype, None)
    return _Entry(place, name, (), None, value)


def _make_room(optimizer: torch.optim.Optimizer, layout: list[_Entry]) -> None:
    """Small things are as told; for tensors there is memory."""
    parameters = parameters_of(optimizer)
    for entry in layout:
        parameter = parameters[entry.place]
        state = optimizer.state[parameter]
        if not entry.shape:
            state[entry.name] = entry.value
        elif entry.name not in state:
            state[entry.name] = torch.empty(entry.shape, dtype=entry.dtype, device=parameter.device)


def _filled(tensors: list[Tensor]) -> list[Tensor]:
    return [each for each in tensors if each.numel()]
