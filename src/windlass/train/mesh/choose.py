"""The mesh of `auto`: the simplest one in which a model fits, and why that one. Pure.

What needs least talk comes first: replicas where one device holds everything, shards within a node where it does not,
shards over all nodes where a node does not either, and split matrices within nodes where even those are too large.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.train.errors import TrainError
from windlass.train.mesh.degrees import Degrees

AUTO = "auto"
_PER_PARAMETER = 16
"""Bytes: a parameter, its gradient and Adam's two averages, in fp32."""
_FOR_STATE = 0.6
"""Of a device; the rest is for activations and what torch keeps."""
_MOST_SHARDS = 64
"""Beyond so many ranks gathering a block takes longer than computing it; then matrices are split within nodes."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What there is: ranks, of them so many on each node, and bytes of memory for each."""

    ranks: int
    on_a_node: int
    memory: int


@dataclass(frozen=True, slots=True)
class Choice:
    """A mesh, and why it."""

    degrees: Degrees
    why: str


def chosen(parameters: int, machine: Machine) -> Choice:
    """The mesh for a model of so many parameters. Raises TrainError if it fits on no mesh of these ranks."""
    needed, room = parameters * _PER_PARAMETER, int(machine.memory * _FOR_STATE)
    model = f"{_billions(parameters)} parameters take {_gib(needed)} with gradients and Adam's averages"
    if needed <= room:
        return Choice(Degrees(dp=machine.ranks), f"{model}, which {_gib(machine.memory)} of each rank hold: replicas")
    shards = -(-needed // max(room, 1))
    if shards > machine.ranks:
        raise TrainError(
            f"mesh auto: {model}; {machine.ranks} ranks of {_gib(machine.memory)} hold {_gib(room * machine.ranks)} of "
            f"that beside activations: {shards} ranks at least"
        )
    if within := _divisor(machine.on_a_node, shards):
        replicas = machine.ranks // within
        return Choice(Degrees(dp=replicas, fsdp=within), f"{model}, more than a rank holds: {within} shards in a node")
    if machine.ranks <= _MOST_SHARDS:
        return Choice(Degrees(fsdp=machine.ranks), f"{model}, more than a node holds: {machine.ranks} shards")
    tensor = machine.on_a_node
    return Choice(
        Degrees(fsdp=machine.ranks // tensor, tp=tensor),
        f"{model}, more than a node holds, and {machine.ranks} shards are many: matrices in {tensor} parts in a node",
    )


def _divisor(count: int, least: int) -> int:
    """The least divisor that is not below; 0 if there is none."""
    return next((part for part in range(least, count + 1) if count % part == 0), 0)


def _gib(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"


def _billions(count: int) -> str:
    return f"{count / 1e9:.3g} B" if count >= 1e9 else f"{count / 1e6:.3g} M"
