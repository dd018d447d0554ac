"""Step time and utilisation that a plan expects, from the figures of a machine and named assumptions. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.hardware.facts.gpus import GpuModel
from windlass.hardware.training.memory import Step
from windlass.hardware.training.model_size import ModelSize
from windlass.train.telemetry.flops import utilisation

EFFICIENCY = 0.5
"""Fraction of the peak that the operations of a step reach. Published runs of decoders lie between 0.4 and 0.77."""
LINK_EFFICIENCY = 0.8
"""Fraction of a link's rate that collectives of large messages reach."""
PCIE_GBS = 25
"""GB a second between GPUs of a node without NVLink: PCIe 4.0 with 16 lanes, as measured by collectives."""


@dataclass(frozen=True, slots=True)
class GpuNode:
    """The GPUs of one node, and Gbit/s of the network between nodes."""

    gpu: GpuModel
    gpus: int
    gbits: int


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """Seconds of a step: computation, communication that it does not hide, and the pipeline's bubble."""

    compute: float
    exposed: float
    bubble: float
    mfu: float | None
    tokens_per_second: float

    @property
    def seconds(self) -> float:
        """Length of the step."""
        return self.compute + self.exposed + self.bubble


def estimate_step(
    model: ModelSize, step: Step, machine: GpuNode, precision: str, efficiency: float = EFFICIENCY
) -> StepEstimate:
    """Returns the time of one optimizer step.

    Gathering shards and reducing gradients overlap with computation, and only the excess is exposed; the all-reduces
    of tensor parallelism are not overlapped. A pipeline of p stages and m micro-batches idles (p - 1) / m.
    """
    degrees = step.degrees
    samples = step.micro_batch * step.accumulate * degrees.data_ranks
    peak = machine.gpu.flops(precision)
    executed = model.flops * (4 / 3 if step.recompute == "full" else 1)
    compute = samples * executed / degrees.size / (peak * efficiency)
    exposed = max(0.0, _sharding_seconds(model, step, machine) - compute) + _tensor_seconds(model, step, machine)
    bubble = (compute + exposed) * (degrees.pp - 1) / step.accumulate
    seconds = compute + exposed + bubble
    return StepEstimate(
        compute,
        exposed,
        bubble,
        utilisation(model.flops * samples, seconds, degrees.size, peak),
        samples * model.tokens / seconds,
    )


def _rate(machine: GpuNode, ranks: int) -> float:
    """Returns bytes a second and GPU of a collective over neighbouring ranks: inside a node, or over the network."""
    if ranks <= machine.gpus:
        return LINK_EFFICIENCY * (machine.gpu.nvlink_gbs / 2 or PCIE_GBS) * 1e9
    return LINK_EFFICIENCY * max(machine.gbits, 1) / 8 * 1e9 / machine.gpus


def _sharding_seconds(model: ModelSize, step: Step, machine: GpuNode) -> float:
    """Returns the time to gather shards, twice for each micro-batch, and to reduce gradients, once for each step."""
    degrees = step.degrees.parameter_degrees
    mine = model.parameters / (degrees.tp * degrees.pp)
    shards, replicas = degrees.fsdp, degrees.dp
    seconds = 0.0
    if shards > 1:
        gathered = (2 * step.accumulate * model.value_bytes + 4) * mine * (shards - 1) / shards
        seconds += gathered / _rate(machine, shards * degrees.tp)
    if replicas > 1:
        reduced = 2 * 4 * mine / shards * (replicas - 1) / replicas
        seconds += reduced / _rate(machine, degrees.size)
    return seconds


def _tensor_seconds(model: ModelSize, step: Step, machine: GpuNode) -> float:
    """Returns the time of the all-reduces of tensor parallelism: two in each direction of each block."""
    tp = step.degrees.tp
    if tp == 1:
        return 0.0
    tokens = step.micro_batch * step.accumulate * model.tokens / step.degrees.cp
    volume = 4 * model.blocks / step.degrees.pp * tokens * model.width * model.value_bytes * 2 * (tp - 1) / tp
    return volume / _rate(machine, tp)
