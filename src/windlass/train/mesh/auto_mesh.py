"""Chooses the `auto` mesh: the simplest mesh in which a model fits, with the reason. Pure.

Meshes with less communication come first: replicas where one device holds everything, then shards within a node, then
shards over all nodes, then matrices split within nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from windlass.train.errors import TrainError
from windlass.train.mesh.degrees import Degrees

AUTO = "auto"
_BYTES_PER_PARAMETER = 16
"""Bytes of a parameter, its gradient and Adam's two averages, in fp32."""
_STATE_FRACTION = 0.6
"""Fraction of a device's memory for this state; the rest is for activations and torch's caches."""
_MAX_SHARDS = 64
"""With more shards, gathering a block takes longer than computing it; then matrices are split within nodes."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """Number of ranks, ranks on each node, and bytes of memory for each rank."""

    ranks: int
    ranks_per_node: int
    memory: int


@dataclass(frozen=True, slots=True)
class MeshChoice:
    """A mesh, and the reason for it."""

    degrees: Degrees
    why: str


def choose_mesh(parameters: int, hardware: Hardware) -> MeshChoice:
    """Return the mesh for a model of `parameters` parameters. Raises TrainError if no mesh of these ranks holds it."""
    needed, room = parameters * _BYTES_PER_PARAMETER, int(hardware.memory * _STATE_FRACTION)
    model = f"{_format_parameters(parameters)} parameters take {_format_gib(needed)} with gradients and Adam's averages"
    shards = -(-needed // max(room, 1))
    if shards > hardware.ranks:
        raise TrainError(
            f"mesh auto: {model}; {hardware.ranks} ranks of {_format_gib(hardware.memory)} hold "
            f"{_format_gib(room * hardware.ranks)} of that beside activations: at least {shards} ranks are needed"
        )
    degrees = next(each for each in candidate_meshes(hardware) if each.fsdp * each.tp >= shards)
    return MeshChoice(degrees, f"{model}, {_reason(degrees, hardware)}")


def candidate_meshes(hardware: Hardware) -> Iterator[Degrees]:
    """Yield the meshes that `auto` considers, the simplest first; the last ones split the model into the most parts."""
    ranks, each = hardware.ranks, hardware.ranks_per_node
    for shards in range(1, each + 1):
        if each % shards == 0:
            yield Degrees(dp=ranks // shards, fsdp=shards)
    if ranks <= _MAX_SHARDS:
        yield Degrees(fsdp=ranks)
    else:
        yield Degrees(fsdp=ranks // each, tp=each)


def _reason(degrees: Degrees, hardware: Hardware) -> str:
    """Return why no simpler mesh holds the model."""
    if degrees.fsdp * degrees.tp == 1:
        return f"which {_format_gib(hardware.memory)} of each rank can hold: replicas"
    if degrees.tp > 1:
        return (
            f"more than one node can hold, and {hardware.ranks} shards are too many: "
            f"matrices in {degrees.tp} parts in a node"
        )
    if degrees.fsdp <= hardware.ranks_per_node:
        return f"more than one rank can hold: {degrees.fsdp} shards in a node"
    return f"more than one node can hold: {degrees.fsdp} shards"


def _format_gib(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"


def _format_parameters(count: int) -> str:
    return f"{count / 1e9:.3g} B" if count >= 1e9 else f"{count / 1e6:.3g} M"
