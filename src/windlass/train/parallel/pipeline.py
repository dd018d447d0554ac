"""Pipeline stages: splits a model that is a chain of modules into stages of about equal parameters.

Every stage is a chain over modules of the one model, which keeps the modules of this rank and drops all others: names
are therefore those of the whole model, whatever the split.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage

from windlass.train.errors import TrainError
from windlass.train.parallel.module_paths import has_module, match_modules
from windlass.train.parallel.plan import Plan

_LOOPED_SCHEDULES = ("interleaved", "zero-bubble", "zbv")
"""Schedules that give each rank several stages."""
_DEFAULT_STAGES_PER_RANK = 2
"""Default number of stages that a looped schedule gives each rank, and the only one of zbv."""


class ModuleChain(nn.Module):
    """Modules called one after the other. They belong to the model and keep their names there."""

    def __init__(self, links: Sequence[nn.Module]) -> None:
        super().__init__()
        self.links = nn.ModuleList(links)

    def forward(self, *inputs: Any) -> Any:
        """Pass the inputs to the first module, and each result to the next one."""
        first, *others = self.links
        found = first(*inputs)
        for link in others:
            found = link(found)
        return found


def find_chain(model: nn.Module, plan: Plan) -> list[str]:
    """Return the paths of the chain that `forward` runs. Raises TrainError if neither plan nor model defines it."""
    if plan.pipeline:
        paths = [path for pattern in plan.pipeline for path in match_modules(model, pattern)]
    elif isinstance(model, nn.Sequential):
        paths = [name for name, _ in model.named_children()]
    else:
        raise TrainError(
            f"pp: which modules {type(model).__name__} calls as a chain cannot be inferred; "
            'name them with Plan(pipeline=("embed", "layers.*", "norm", "head"))'
        )
    _refuse_left_out(model, paths)
    return paths


def stages_per_rank(plan: Plan) -> int:
    """Return the number of stages of each rank. Raises TrainError for a number that the schedule does not support."""
    requested = plan.stages_per_rank
    if plan.schedule not in _LOOPED_SCHEDULES:
        if requested > 1:
            raise TrainError(
                f"stages_per_rank={requested}: {plan.schedule} has one stage on each rank; "
                f"schedules with several are {', '.join(_LOOPED_SCHEDULES)}"
            )
        return 1
    if plan.schedule == "zbv" and requested > _DEFAULT_STAGES_PER_RANK:
        raise TrainError(f"stages_per_rank={requested}: zbv has two stages on each rank; use zero-bubble for more")
    return max(requested, _DEFAULT_STAGES_PER_RANK)


def split_chain(model: nn.Module, paths: Sequence[str], count: int) -> list[list[str]]:
    """Split the chain into `count` contiguous parts, minimizing the parameters of the largest part.

    Raises TrainError if there are fewer links than stages.
    """
    if len(paths) < count:
        raise TrainError(
            f"pp: {len(paths)} modules of a chain cannot make {count} stages; use fewer stages, or smaller modules"
        )
    # A module without parameters still takes time, so it has a small weight.
    weights = [max(1, sum(each.numel() for each in model.get_submodule(path).parameters())) for path in paths]
    ends = _part_ends(weights, count)
    return [list(paths[begin:end]) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def refuse_frozen(model: nn.Module, stages: Sequence[Sequence[str]]) -> None:
    """Raise TrainError for a stage without trainable parameters: gradients pass through parameters of every stage."""
    for number, paths in enumerate(stages, start=1):
        if not any(each.requires_grad for path in paths for each in model.get_submodule(path).parameters()):
            raise TrainError(
                f"pp: stage {number} of {len(stages)} ({paths[0]} to {paths[-1]}) has no trainable parameter, all are "
                "frozen; split a model with a frozen body by dp, fsdp or tp"
            )


def stages_of_rank(count: int, ranks: int, rank: int, schedule: str) -> list[int]:
    """Return the stages of one rank: in loops over the ranks, or for `zbv` there and back (Qi et al. 2024)."""
    if schedule == "zbv":
        return [rank, count - 1 - rank]
    return list(range(rank, count, ranks))


def remove_other_modules(model: nn.Module, paths: Sequence[str]) -> None:
    """Remove every module that neither is, contains nor belongs to one of these paths."""
    for path, _ in list(model.named_modules()):
        if path and not any(_contains(path, kept) or _contains(kept, path) for kept in paths):
            parent, _, name = path.rpartition(".")
            owner = model.get_submodule(parent) if has_module(model, parent) else None
            if owner is not None and name in owner._modules:  # noqa: SLF001 - torch has no public way to remove a module
                del owner._modules[name]  # noqa: SLF001


def _contains(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith(f"{outer}.")


def _refuse_left_out(model: nn.Module, paths: Sequence[str]) -> None:
    """Raise TrainError for parameters outside the chain, which no stage has, and for shared ones, which two have."""
    owners: dict[int, str] = {}
    for path in paths:
        for parameter in model.get_submodule(path).parameters():
            if (other := owners.setdefault(id(parameter), path)) != path:
                raise TrainError(f"pp: {other} and {path} share a parameter, which would be on two stages; untie them")
    left = [name for name, parameter in model.named_parameters() if id(parameter) not in owners]
    if left:
        raise TrainError(f"pp: {left[0]} is not in the pipeline {', '.join(paths[:4])} …; add its module")


def _part_ends(weights: Sequence[int], count: int) -> list[int]:
    """Return where parts end: finds the least maximum by bisection, then fills each part up to it."""
    low, high = max(weights), sum(weights)
    while low < high:
        middle = (low + high) // 2
        if len(_fill_parts(weights, middle, count)) <= count:
            high = middle
        else:
            low = middle + 1
    return _fill_parts(weights, low, count)


def _fill_parts(weights: Sequence[int], most: int, count: int) -> list[int]:
    """Return the ends of parts of at most `most`, filled from the front, each later part with at least one link."""
    ends: list[int] = []
    held = 0
    for index, weight in enumerate(weights):
        is_full = held + weight > most
        must_leave = held > 0 and len(weights) - index <= count - 1 - len(ends)
        if held and (is_full or must_leave):
            ends.append(index)
            held = 0
        held += weight
    return [*ends, len(weights)]


class DeterministicStage(PipelineStage):
    """torch's pipeline stage, whose shape inference draws no random numbers.

    Before its first step a stage runs once to infer the shapes that it passes on. Dropout in it would advance this
    rank's generators, and a restarted run would draw other numbers than an uninterrupted one.
    """

    def _prepare_forward_infra(self, *given: Any, **named: Any) -> Any:
        with self._generators_kept():
            return super()._prepare_forward_infra(*given, **named)

    def _prepare_backward_infra(self, *given: Any, **named: Any) -> Any:
        with self._generators_kept():
            return super()._prepare_backward_infra(*given, **named)

    def _generators_kept(self) -> Any:
        return torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else [])
