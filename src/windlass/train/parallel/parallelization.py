"""Builds a model on the mesh, applying torch's parallelisms in the only order in which they compose."""

from __future__ import annotations

import contextlib

import torch
from torch import nn

from windlass.train.errors import TrainError
from windlass.train.mesh.device_mesh import Mesh
from windlass.train.parallel import blocks as by_block
from windlass.train.parallel import float8
from windlass.train.parallel import pipeline as in_stages
from windlass.train.parallel.context_parallel import ContextParallel
from windlass.train.parallel.data_parallel import apply_data_parallel
from windlass.train.parallel.model import Builder, ParallelModel
from windlass.train.parallel.module_paths import find_blocks, has_module
from windlass.train.parallel.pipeline import DeterministicStage
from windlass.train.parallel.plan import Plan, Recompute
from windlass.train.parallel.precision import PrecisionPolicy
from windlass.train.parallel.tensor_parallel import apply_tensor_parallel, find_styles


def parallelize(
    build: Builder, plan: Plan, mesh: Mesh, precision: PrecisionPolicy, ac: Recompute, seed: int, device: torch.device
) -> ParallelModel:
    """Build the whole model with the same values on every rank, and keep this rank's part. A collective.

    Raises TrainError, on all ranks alike, before anything is sent.
    """
    # 1. build the whole model, equal on every rank
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build()
    # 2. plan the split while the whole model is visible
    degrees = mesh.degrees
    repeated = find_blocks(model, plan.blocks)
    styles = find_styles(model, plan, degrees.tp) if degrees.tp > 1 else {}
    stages = _plan_stages(model, plan, degrees.pp) if degrees.pp > 1 else []
    if precision.float8:
        float8.convert(model, repeated)
    # 3. keep this rank's stages, on its device
    mine = in_stages.stages_of_rank(len(stages), degrees.pp, mesh.coordinates.pp, plan.schedule)
    if stages:
        in_stages.remove_other_modules(model, [path for stage in mine for path in stages[stage]])
    if not degrees.fsdp > 1 or styles:
        model.to(device)  # FSDP2 moves unit by unit and keeps a part of each: the whole need not fit on one device
    # 4. tensor parallelism, then recomputation and compilation by block, then shards and replicas
    if styles:
        part = mesh.submesh("tp")
        assert part is not None  # noqa: S101 - tp > 1
        apply_tensor_parallel(model, styles, plan, part)
    kept = [path for path in repeated if has_module(model, path)]
    context = _context_parallel(model, plan, mesh)
    by_block.wrap_recomputation(model, kept, ac, contextlib.nullcontext if context is None else context.attending)
    if plan.compiles:
        by_block.compile_blocks(model, kept)
    if not stages:
        units = [model.get_submodule(path) for path in kept]
        run = apply_data_parallel(model, units, mesh, precision, pipelined=False)
        return ParallelModel(model, (run,), (), mesh, plan, precision, device, context)
    chains = [in_stages.ModuleChain([model.get_submodule(path) for path in stages[stage]]) for stage in mine]
    runs = tuple(
        apply_data_parallel(
            chain,
            [model.get_submodule(path) for path in kept if path in stages[stage]],
            mesh,
            precision,
            pipelined=True,
        )
        for chain, stage in zip(chains, mine, strict=True)
    )
    group = mesh.group("pp")
    made = tuple(
        DeterministicStage(run, stage, len(stages), device, group=group) for run, stage in zip(runs, mine, strict=True)
    )
    return ParallelModel(model, runs, made, mesh, plan, precision, device)


def _context_parallel(model: nn.Module, plan: Plan, mesh: Mesh) -> ContextParallel | None:
    """Return the context parallelism over `cp`; None if it is 1."""
    if mesh.sequence is None:
        return None
    if plan.compiles:
        raise TrainError("cp: attention cannot be gathered inside compiled blocks; use compiles=False")
    found = ContextParallel(mesh.sequence)
    found.patch_positions(model, plan.positions)
    return found


def _plan_stages(model: nn.Module, plan: Plan, ranks: int) -> list[list[str]]:
    count = ranks * in_stages.stages_per_rank(plan)
    stages = in_stages.split_chain(model, in_stages.find_chain(model, plan), count)
    in_stages.refuse_frozen(model, stages)
    return stages
