"""Pipeline stages: a model that is a chain of modules, cut where each stage has about as many parameters.

Every stage is a chain over modules of the one model, which keeps the modules of this rank and loses all others: so
names are the whole model's, whatever the cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage

from windlass.train.errors import TrainError
from windlass.train.parallel.paths import has, matching
from windlass.train.parallel.plan import Plan

LOOPED = ("interleaved", "zero-bubble", "zbv")
"""Schedules that give each rank several stages."""


class Chain(nn.Module):
    """Modules one after the other. They are the model's own, and have their names there."""

    def __init__(self, links: Sequence[nn.Module]) -> None:
        super().__init__()
        self.links = nn.ModuleList(links)

    def forward(self, *inputs: Any) -> Any:
        """The first takes whatever the model takes; each other one what the one before it gives."""
        first, *others = self.links
        found = first(*inputs)
        for link in others:
            found = link(found)
        return found


def chain_of(model: nn.Module, plan: Plan) -> list[str]:
    """The paths of which `forward` is the chain. Raises TrainError if nobody has said."""
    if plan.pipeline:
        paths = [path for pattern in plan.pipeline for path in matching(model, pattern)]
    elif isinstance(model, nn.Sequential):
        paths = [name for name, _ in model.named_children()]
    else:
        raise TrainError(
            f"pp: which modules {type(model).__name__} runs one after the other cannot be seen from it; "
            'tell: Plan(pipeline=("embed", "layers.*", "norm", "head"))'
        )
    _refuse_left_out(model, paths)
    return paths


def stages_of(model: nn.Module, paths: Sequence[str], count: int) -> list[list[str]]:
    """The chain cut in `count` contiguous parts, the largest of them as small as can be, by parameters.

    Raises TrainError if there are fewer links than stages.
    """
    if len(paths) < count:
        raise TrainError(f"pp: {len(paths)} links of a chain cannot make {count} stages; fewer stages, or finer links")
    # A module without parameters still takes time: it counts a little.
    weights = [max(1, sum(each.numel() for each in model.get_submodule(path).parameters())) for path in paths]
    ends = _cuts(weights, count)
    return [list(paths[begin:end]) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def refuse_frozen(model: nn.Module, stages: Sequence[Sequence[str]]) -> None:
    """Gradients come back through every stage, into parameters of its own. Raises TrainError for one without."""
    for number, paths in enumerate(stages, start=1):
        if not any(each.requires_grad for path in paths for each in model.get_submodule(path).parameters()):
            raise TrainError(
                f"pp: stage {number} of {len(stages)} ({paths[0]} to {paths[-1]}) has nothing to learn, all of it is "
                "frozen; split a model with a frozen body by dp, fsdp or tp"
            )


def placed(count: int, ranks: int, rank: int, schedule: str) -> list[int]:
    """The stages of one rank: in loops over the ranks, or for `zbv` there and back (Qi et al. 2024)."""
    if schedule == "zbv":
        return [rank, count - 1 - rank]
    return list(range(rank, count, ranks))


def keep_only(model: nn.Module, paths: Sequence[str]) -> None:
    """Take every module out of the model that is neither one of these nor around one of them."""
    for path, _ in list(model.named_modules()):
        if path and not any(_is_around(path, kept) or _is_around(kept, path) for kept in paths):
            parent, _, name = path.rpartition(".")
            owner = model.get_submodule(parent) if has(model, parent) else None
            if owner is not None and name in owner._modules:  # noqa: SLF001 - torch has no public way to take one out
                del owner._modules[name]  # noqa: SLF001


def _is_around(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith(f"{outer}.")


def _refuse_left_out(model: nn.Module, paths: Sequence[str]) -> None:
    """Parameters outside of the chain would be on no stage, and shared ones on two."""
    owners: dict[int, str] = {}
    for path in paths:
        for parameter in model.get_submodule(path).parameters():
            if (other := owners.setdefault(id(parameter), path)) != path:
                raise TrainError(f"pp: {other} and {path} share a parameter, which would be on two stages; untie them")
    left = [name for name, parameter in model.named_parameters() if id(parameter) not in owners]
    if left:
        raise TrainError(f"pp: {left[0]} is in no link of the pipeline {', '.join(paths[:4])} …; add its module")


def _cuts(weights: Sequence[int], count: int) -> list[int]:
    """Where parts end. The least largest part, found by bisection; then each part as full as that allows."""
    low, high = max(weights), sum(weights)
    while low < high:
        middle = (low + high) // 2
        if len(_filled(weights, middle, count)) <= count:
            high = middle
        else:
            low = middle + 1
    return _filled(weights, low, count)


def _filled(weights: Sequence[int], most: int, count: int) -> list[int]:
    """The ends of parts of at most `most`, filled from the front, each later part with one link at least."""
    ends: list[int] = []
    held = 0
    for place, weight in enumerate(weights):
        is_full = held + weight > most
        must_leave = held > 0 and len(weights) - place <= count - 1 - len(ends)
        if held and (is_full or must_leave):
            ends.append(place)
            held = 0
        held += weight
    return [*ends, len(weights)]


class Stage(PipelineStage):
    """One stage of a model on this rank."""

    def _prepare_forward_infra(self, *given: Any, **named: Any) -> Any:
        with self._generators_kept():
            return super()._prepare_forward_infra(*given, **named)

    def _prepare_backward_infra(self, *given: Any, **named: Any) -> Any:
        with self._generators_kept():
            return super()._prepare_backward_infra(*given, **named)

    def _generators_kept(self) -> Any:
        return torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else [])
