"""Broadcasts the state of one rank to all replicas, over a gloo group.

The source is the rank with most steps done: a step consensus can be complete on one rank and interrupted on the next,
so surviving ranks may be one step apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from windlass.train.step.optimizer import parameters_of
from windlass.train.training_state import Stateful

_BUCKET_BYTES = 32 << 20
"""Bytes of one broadcast bucket."""
_NO_STATE = -1


class BroadcastSource(NamedTuple):
    """The rank that broadcasts its state, and whether any other rank needs it."""

    rank: int
    is_needed: bool


def elect_source(group: dist.ProcessGroup, steps: int | None) -> BroadcastSource | None:
    """Elect the rank with most steps done; None if no rank has a state.

    `steps`: steps done by this rank, None if it was just started. A collective.
    """
    mine = torch.tensor([_NO_STATE if steps is None else steps])
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(every, mine, group=group)
    counts = [int(each) for each in every]
    most = max(counts)
    return None if most == _NO_STATE else BroadcastSource(counts.index(most), min(counts) < most)


def broadcast_tensors(
    group: dist.ProcessGroup, source: int, modules: Sequence[nn.Module], optimizers: Sequence[torch.optim.Optimizer]
) -> None:
    """Broadcast parameters, buffers and per-parameter optimizer state of rank `source`. A collective."""
    takes = dist.get_rank(group) != source
    layouts = broadcast_object(group, source, [_layout(each) for each in optimizers])
    if takes:
        for optimizer, layout in zip(optimizers, layouts, strict=True):
            _allocate(optimizer, layout)
    tensors = [each.detach() for module in modules for each in (*module.parameters(), *module.buffers())]
    for optimizer, layout in zip(optimizers, layouts, strict=True):
        parameters = parameters_of(optimizer)
        tensors += [optimizer.state[parameters[entry.position]][entry.name] for entry in layout if entry.shape]
    dist._broadcast_coalesced(group, _non_empty(tensors), _BUCKET_BYTES, source)  # type: ignore[attr-defined]  # noqa: SLF001


def broadcast_small_state(
    group: dist.ProcessGroup,
    source: int,
    parts: Mapping[str, Stateful],
    optimizers: Sequence[torch.optim.Optimizer],
) -> None:
    """Broadcast the state of `parts` and the options of the optimizers' groups from rank `source`. A collective."""
    states = {name: each.state_dict() for name, each in parts.items()}
    rates = [[_without_parameters(each) for each in optimizer.param_groups] for optimizer in optimizers]
    states, rates = broadcast_object(group, source, (states, rates))
    if dist.get_rank(group) == source:
        return
    for name, part in parts.items():
        part.load_state_dict(states[name])
    for optimizer, value in zip(optimizers, rates, strict=True):
        for mine, theirs in zip(optimizer.param_groups, value, strict=True):
            mine.update(theirs)


def broadcast_object(group: dist.ProcessGroup, source: int, value: Any) -> Any:
    """Return the object that rank `source` passes, which must be picklable. A collective."""
    box = [value if dist.get_rank(group) == source else None]
    dist.broadcast_object_list(box, src=source, group=group)
    return box[0]


class _StateEntry(NamedTuple):
    """One value of an optimizer's state for one parameter."""

    position: int
    """Index of the parameter."""
    name: str
    shape: tuple[int, ...]
    """Shape of a tensor to allocate; empty for a value that is sent directly."""
    dtype: torch.dtype | None
    value: Any


def _without_parameters(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "params"}


def _layout(optimizer: torch.optim.Optimizer) -> list[_StateEntry]:
    return [
        _entry(position, name, value)
        for position, parameter in enumerate(parameters_of(optimizer))
        for name, value in optimizer.state.get(parameter, {}).items()
    ]


def _entry(position: int, name: str, value: Any) -> _StateEntry:
    if isinstance(value, Tensor) and value.dim():
        return _StateEntry(position, name, tuple(value.shape), value.dtype, None)
    return _StateEntry(position, name, (), None, value)


def _allocate(optimizer: torch.optim.Optimizer, layout: list[_StateEntry]) -> None:
    """Set the values that were sent directly, and allocate memory for the tensors."""
    parameters = parameters_of(optimizer)
    for entry in layout:
        parameter = parameters[entry.position]
        state = optimizer.state[parameter]
        if not entry.shape:
            state[entry.name] = entry.value
        elif entry.name not in state:
            state[entry.name] = torch.empty(entry.shape, dtype=entry.dtype, device=parameter.device)


def _non_empty(tensors: list[Tensor]) -> list[Tensor]:
    return [each for each in tensors if each.numel()]
