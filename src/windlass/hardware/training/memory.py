"""Peak memory of one rank of a training step, by part and by the moment at which the peak occurs. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from windlass.hardware.training.model_size import ModelSize
from windlass.train.mesh.degrees import Degrees

OPTIMIZERS: Mapping[str, int] = MappingProxyType({"adamw": 8, "momentum": 4, "sgd": 0})
"""Bytes of optimizer state for each parameter, in fp32."""
RECOMPUTATION = ("none", "full")
_GATHERED_BLOCKS = 2
"""Blocks whose parameters FSDP2 holds whole at one time: the one that runs and the one that is prefetched."""


@dataclass(frozen=True, slots=True)
class Step:
    """The settings of a step that determine its memory: mesh, samples of a micro-batch, and what is recomputed."""

    degrees: Degrees
    micro_batch: int
    recompute: str = "none"
    optimizer: str = "adamw"
    accumulate: int = 1
    """Micro-batches whose gradients are summed before the optimizer runs."""
    foreach: bool = True
    """Whether the optimizer updates all parameters at once, as torch does on GPUs; it then holds a copy of them."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes by part at the moment of the peak, which `moment` names."""

    parts: Mapping[str, int]
    moment: str

    @property
    def peak(self) -> int:
        """Sum of all parts."""
        return sum(self.parts.values())


def estimate_memory(model: ModelSize, step: Step) -> Memory:
    """Returns the largest of four moments: loss, first and last block of the backward pass, optimizer's update."""
    fixed = _state(model, step)
    gradients = _share(model.parameters * 4, step.degrees)
    activations = _activations(model, step)
    head = _divided(model.head * step.micro_batch, step)
    workspace = _divided(model.workspace * step.micro_batch, step)
    block = _divided(model.block_saved * step.micro_batch, step)
    again = block if step.recompute == "full" else 0
    first = gradients if step.accumulate > 1 else _share(_root_parameters(model) * 4, step.degrees)
    accumulated = gradients if step.accumulate > 1 else 0
    buffers = {"workspace": workspace, "gradient buffers": _gradient_buffers(model, step)}
    moments = (
        Memory({**fixed, "gradients": accumulated, "activations": activations, "loss": head}, "loss"),
        Memory({**fixed, "gradients": first, "activations": activations + again, **buffers}, "first block of backward"),
        Memory({**fixed, "gradients": gradients, "activations": block, **buffers}, "last block of backward"),
        Memory({**_sharded(fixed), "gradients": gradients, "temporary": _update(model, step)}, "optimizer update"),
    )
    largest = max(moments, key=lambda moment: moment.peak)
    return Memory({name: size for name, size in largest.parts.items() if size}, largest.moment)


def _share(size: int, degrees: Degrees) -> int:
    """Returns one rank's part of something that is split as the parameters are."""
    shards = degrees.parameter_degrees.fsdp
    return math.ceil(size / (shards * degrees.tp * degrees.pp))


def _divided(size: int, step: Step) -> int:
    """Returns one rank's part of activations: the sequence is split by `cp` and, between matrices, by `tp`."""
    return math.ceil(size / (step.degrees.tp * step.degrees.cp))


def _state(model: ModelSize, step: Step) -> dict[str, int]:
    degrees = step.degrees
    return {
        "parameters": _share(model.parameters * 4, degrees),
        "optimizer": _share(model.parameters * OPTIMIZERS[step.optimizer], degrees),
        "gathered parameters": _gathered(model, step),
    }


def _sharded(parts: Mapping[str, int]) -> dict[str, int]:
    return {name: size for name, size in parts.items() if name != "gathered parameters"}


def _gathered(model: ModelSize, step: Step) -> int:
    """Returns the whole parameters that shards are gathered into, or autocast's copies in the low precision."""
    if step.degrees.parameter_degrees.fsdp > 1:
        whole = _GATHERED_BLOCKS * model.block_parameters + _root_parameters(model)
        return math.ceil(whole * model.value_bytes / step.degrees.tp)
    if model.value_bytes == 4:
        return 0
    return math.ceil(model.parameters * model.value_bytes / (step.degrees.tp * step.degrees.pp))


def _root_parameters(model: ModelSize) -> int:
    """Returns the parameters outside of all blocks."""
    return max(0, model.parameters - model.blocks * model.block_parameters)


def _gradient_buffers(model: ModelSize, step: Step) -> int:
    """Returns the whole gradients of one block before FSDP2 reduces them to shards."""
    if step.degrees.parameter_degrees.fsdp == 1:
        return 0
    return math.ceil(model.block_parameters * (model.value_bytes + 4) / step.degrees.tp)


def _activations(model: ModelSize, step: Step) -> int:
    """Returns what autograd keeps at the start of the backward pass; 1F1B keeps as many micro-batches as stages."""
    kept = model.saved if step.recompute == "none" else model.inputs
    stages = step.degrees.pp
    in_flight = min(stages, max(step.accumulate, 1))
    return _divided(math.ceil(kept * step.micro_batch * in_flight / stages), step)


def _update(model: ModelSize, step: Step) -> int:
    if step.optimizer == "sgd" or not step.foreach:
        return 0
    return _share(model.parameters * 4, step.degrees)
