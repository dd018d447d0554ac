"""Chooses mesh, micro-batch and recomputation of a training run, with the memory and the time that they lead to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from windlass.hardware.errors import PlanError
from windlass.hardware.training.memory import RECOMPUTATION, Memory, Step, estimate_memory
from windlass.hardware.training.model_size import ModelSize
from windlass.hardware.training.step_time import (
    EFFICIENCY,
    LINK_EFFICIENCY,
    PCIE_GBS,
    GpuNode,
    StepEstimate,
    estimate_step,
)
from windlass.train.errors import TrainError
from windlass.train.mesh.auto_mesh import AUTO, Hardware, candidate_meshes
from windlass.train.mesh.degrees import Degrees, parse_degrees

USABLE = 0.92
"""Fraction of a GPU's memory for tensors; the rest covers fragmentation of the caching allocator."""
FRAMEWORK = 1_500_000_000
"""Bytes of the CUDA context, libraries and NCCL's buffers on each GPU."""
_MAX_MICRO_BATCH = 1024


@dataclass(frozen=True, slots=True)
class Request:
    """A run to plan: `nodes` machines, samples of a step (0: as many as one micro-batch of each rank), and the rest.

    `mesh`: "auto", or degrees as in `train.init`; `recompute`: "auto", "none" or "full"; `micro_batch` 0: the fastest
    that fits.
    """

    machine: GpuNode
    nodes: int = 1
    precision: str = "bf16"
    optimizer: str = "adamw"
    mesh: str = AUTO
    recompute: str = "auto"
    micro_batch: int = 0
    global_batch: int = 0
    efficiency: float = EFFICIENCY

    @property
    def ranks(self) -> int:
        """Number of GPUs."""
        return self.nodes * self.machine.gpus

    @property
    def room(self) -> int:
        """Bytes of each GPU for tensors."""
        return int(self.machine.gpu.memory * USABLE) - FRAMEWORK


class PlannedStep(NamedTuple):
    """A step that fits, and what it takes."""

    step: Step
    memory: Memory
    time: StepEstimate


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """The chosen step, the meshes before it with the reason against each, and faster steps on less simple meshes."""

    step: Step
    memory: Memory
    time: StepEstimate
    rejected: tuple[tuple[str, str], ...]
    faster: tuple[PlannedStep, ...] = ()


_FASTER = 1.02
"""Ratio of throughputs from which another mesh is named."""
_MOST_NODES = 4096


def plan_training(model: ModelSize, request: Request) -> TrainingPlan:
    """Returns the fastest step on the first mesh that holds the model. Raises PlanError if none does."""
    rejected: list[tuple[str, str]] = []
    fitting: list[PlannedStep] = []
    for degrees in _meshes(request):
        best, least = _best_step(model, request, degrees)
        if best:
            fitting.append(best)
        elif not fitting:
            reason = f"needs {format_gib(least)}" if least else "the batch is no multiple of its data ranks"
            rejected.append((str(degrees), reason))
    if not fitting:
        raise PlanError(
            f"{model.name} does not fit: each of {request.ranks} {request.machine.gpu.name} has "
            f"{format_gib(request.room)} for tensors\n"
            + "; ".join(f"mesh {mesh}: {why}" for mesh, why in rejected)
            + _sufficient_nodes(model, request)
        )
    chosen, *others = fitting
    least_rate = chosen.time.tokens_per_second * _FASTER
    faster = [each for each in others if each.time.tokens_per_second >= least_rate]
    return TrainingPlan(*chosen, tuple(rejected), tuple(faster))


def _best_step(model: ModelSize, request: Request, degrees: Degrees) -> tuple[PlannedStep | None, int]:
    """Returns the fastest step of a mesh that fits, and the least memory that a step of it needs; 0 without steps."""
    fitting, least = [], 0
    for step in _steps(degrees, request):
        memory = estimate_memory(model, step)
        least = min(least or memory.peak, memory.peak)
        if memory.peak <= request.room:
            fitting.append(PlannedStep(step, memory, estimate_step(model, step, *_machine(request))))
    best = max(fitting, key=lambda found: (found.time.tokens_per_second, -found.memory.peak), default=None)
    return best, least


def _sufficient_nodes(model: ModelSize, request: Request) -> str:
    """Returns a line with a number of nodes that holds the model: the requested one, doubled as often as necessary."""
    if request.mesh != AUTO or request.global_batch:
        return ""
    nodes = request.nodes * 2
    while nodes <= _MOST_NODES:
        larger = dataclasses.replace(request, nodes=nodes)
        if any(_best_step(model, larger, degrees)[0] for degrees in _meshes(larger)):
            return f"\nit fits on {nodes} such nodes: -N {nodes}"
        nodes *= 2
    return "\nmore such nodes do not help: choose a GPU with more memory, or a shorter --length"


def _machine(request: Request) -> tuple[GpuNode, str, float]:
    return request.machine, request.precision, request.efficiency


def _meshes(request: Request) -> Iterator[Degrees]:
    """Yields the requested mesh; for "auto" the candidates of `train.init(mesh="auto")`, the simplest first."""
    if request.mesh == AUTO:
        seen = candidate_meshes(Hardware(request.ranks, request.machine.gpus, request.machine.gpu.memory))
        yield from dict.fromkeys(seen)
        return
    try:
        yield parse_degrees(request.mesh, request.ranks)
    except TrainError as error:
        raise PlanError(str(error)) from None


def _steps(degrees: Degrees, request: Request) -> Iterator[Step]:
    """Yields every combination of micro-batch and recomputation that the request allows."""
    for recompute in RECOMPUTATION if request.recompute == "auto" else (request.recompute,):
        for micro_batch in _micro_batches(degrees, request):
            samples = request.global_batch // degrees.data_ranks if request.global_batch else micro_batch * degrees.pp
            yield Step(degrees, micro_batch, recompute, request.optimizer, samples // micro_batch)


def _micro_batches(degrees: Degrees, request: Request) -> Iterator[int]:
    """Yields the sizes of micro-batches to try: powers of two, each of which divides the samples of a rank."""
    each = request.global_batch // degrees.data_ranks
    if request.global_batch and request.global_batch % degrees.data_ranks:
        return
    size = request.micro_batch or 1
    while size <= (request.micro_batch or _MAX_MICRO_BATCH):
        if not request.global_batch or (size <= each and each % size == 0):
            yield size
        size *= 2


def assumptions(request: Request) -> list[str]:
    """Returns the assumptions of a plan as sentences."""
    gpu = request.machine.gpu
    link = f"{gpu.nvlink_gbs / 2:g} GB/s (NVLink, one direction)" if gpu.nvlink_gbs else f"{PCIE_GBS} GB/s (PCIe)"
    return [
        f"operations reach {request.efficiency:.0%} of {gpu.flops(request.precision) / 1e12:g} dense TFLOPS",
        f"collectives reach {LINK_EFFICIENCY:.0%} of {link} in a node"
        + (f" and of {request.machine.gbits:,} Gbit/s of each node" if request.nodes > 1 else ""),
        "parameters, gradients and optimizer state are fp32; attention is fused; no dropout",
        f"{FRAMEWORK / 1e9:g} GB of each GPU go to CUDA and NCCL, {1 - USABLE:.0%} of it to fragmentation",
        "figures of GPUs come from data sheets: not run on a GPU yet",
    ]


def _unmodelled(model: ModelSize) -> list[str]:
    if not model.unmodelled:
        return []
    return [f"not modelled, so that parameters and memory are approximate: {', '.join(model.unmodelled)}"]


def plain_plan(model: ModelSize, request: Request, plan: TrainingPlan) -> dict[str, Any]:
    """Returns the plan as plain values, for JSON and YAML. Sizes are bytes, times seconds."""
    step, time = plan.step, plan.time
    return {
        "model": {"name": model.name, "parameters": model.parameters, "tokens": model.tokens},
        "gpu": request.machine.gpu.name,
        "nodes": request.nodes,
        "ranks": request.ranks,
        "mesh": str(step.degrees),
        "micro_batch": step.micro_batch,
        "accumulate": step.accumulate,
        "global_batch": step.micro_batch * step.accumulate * step.degrees.data_ranks,
        "recompute": step.recompute,
        "optimizer": step.optimizer,
        "precision": request.precision,
        "efficiency": request.efficiency,
        "memory": {"peak": plan.memory.peak, "usable": request.room, "moment": plan.memory.moment}
        | {"parts": dict(plan.memory.parts)},
        "step": {**dataclasses.asdict(time), "seconds": time.seconds},
        "rejected": [{"mesh": mesh, "why": why} for mesh, why in plan.rejected],
        "faster": [
            {
                "mesh": str(each.step.degrees),
                "micro_batch": each.step.micro_batch,
                "recompute": each.step.recompute,
                "peak": each.memory.peak,
                "tokens_per_second": each.time.tokens_per_second,
            }
            for each in plan.faster
        ],
        "assumptions": assumptions(request) + _unmodelled(model),
    }


def format_gib(size: int) -> str:
    """Returns bytes as GiB."""
    return f"{size / 2**30:,.1f} GiB"
