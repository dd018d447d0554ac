"""From a function that builds a model to the model on the mesh, in the one order in which torch's parts fit."""

from __future__ import annotations

import contextlib

import torch
from torch import nn

from windlass.train.errors import TrainError
from windlass.train.mesh.device_mesh import Mesh
from windlass.train.parallel import blocks as by_block
from windlass.train.parallel import float8
from windlass.train.parallel import stages as in_stages
from windlass.train.parallel.model import Builder, ParallelModel
from windlass.train.parallel.paths import blocks_of, has
from windlass.train.parallel.plan import Plan, Recompute
from windlass.train.parallel.precision import Numbers
from windlass.train.parallel.sequence import Sequences
from windlass.train.parallel.shares import shared
from windlass.train.parallel.stages import Stage
from windlass.train.parallel.tensor import split, styles_of

_SEVERAL = 2
"""Stages that a looped schedule gives each rank, if nobody says how many."""


def parallelize(
    build: Builder, plan: Plan, mesh: Mesh, numbers: Numbers, ac: Recompute, seed: int, device: torch.device
) -> ParallelModel:
    """A collective. Every rank builds the whole model with the same numbers, and keeps its part.

    Raises TrainError, on all ranks alike, before anything is sent.
    """
    # 1. the whole model, the same everywhere
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build()
    # 2. what is to be done with it, while all of it is there to be looked at
    degrees = mesh.degrees
    repeated = blocks_of(model, plan.blocks)
    styles = styles_of(model, plan, degrees.tp) if degrees.tp > 1 else {}
    stages = _stages(model, plan, degrees.pp) if degrees.pp > 1 else []
    if numbers.float8:
        float8.convert(model, repeated)
    # 3. this rank's stages of it, on its device
    mine = in_stages.placed(len(stages), degrees.pp, mesh.here.pp, plan.schedule)
    if stages:
        in_stages.keep_only(model, [path for stage in mine for path in stages[stage]])
    if not degrees.fsdp > 1 or styles:
        model.to(device)  # FSDP2 moves unit by unit, and keeps a part of each: the whole need not fit on one device
    # 4. tensors, then recomputation and compilation block by block, then shards and replicas
    if styles:
        part = mesh.part("tp")
        assert part is not None  # noqa: S101 - tp > 1
        split(model, styles, plan, part)
    kept = [path for path in repeated if has(model, path)]
    sequences = _sequences(model, plan, mesh)
    by_block.recompute(model, kept, ac, contextlib.nullcontext if sequences is None else sequences.attending)
    if plan.compiles:
        by_block.compiled(model, kept)
    if not stages:
        units = [model.get_submodule(path) for path in kept]
        run = shared(model, units, mesh, numbers, pipelined=False)
        return ParallelModel(model, (run,), (), mesh, plan, numbers, device, sequences)
    chains = [in_stages.Chain([model.get_submodule(path) for path in stages[stage]]) for stage in mine]
    runs = tuple(
        shared(
            chain, [model.get_submodule(path) for path in kept if path in stages[stage]], mesh, numbers, pipelined=True
        )
        for chain, stage in zip(chains, mine, strict=True)
    )
    group = mesh.group("pp")
    made = tuple(Stage(run, stage, len(stages), device, group=group) for run, stage in zip(runs, mine, strict=True))
    return ParallelModel(model, runs, made, mesh, plan, numbers, device)


def _sequences(model: nn.Module, plan: Plan, mesh: Mesh) -> Sequences | None:
    """How they are cut over `cp`; None if they are not."""
    if mesh.sequence is None:
        return None
    if plan.compiles:
        raise TrainError("cp: attention is not gathered within compiled blocks; compiles=False")
    found = Sequences(mesh.sequence)
    found.place(model, plan.positions)
    return found


def _stages(model: nn.Module, plan: Plan, ranks: int) -> list[list[str]]:
    looped = plan.schedule in in_stages.LOOPED
    each = max(plan.stages_per_rank, _SEVERAL) if looped else 1
    if not looped and plan.stages_per_rank > 1:
        raise TrainError(
            f"stages_per_rank={plan.stages_per_rank}: {plan.schedule} has one stage on each rank; "
            f"schedules with several are {', '.join(in_stages.LOOPED)}"
        )
    stages = in_stages.stages_of(model, in_stages.chain_of(model, plan), ranks * each)
    in_stages.refuse_frozen(model, stages)
    return stages
