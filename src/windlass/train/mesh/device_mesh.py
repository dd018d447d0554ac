"""torch's device mesh for some degrees, and the parts of it that each kind of parallelism works on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from windlass.train.mesh.degrees import Coordinates, Degrees, coordinates_of, data_rank


@dataclass(frozen=True, slots=True)
class Mesh:
    """The ranks by their coordinates. `devices` has what is split, by `Degrees.sharing`: so never `cp`."""

    degrees: Degrees
    rank: int
    devices: DeviceMesh
    sequence: dist.ProcessGroup | None = None
    """The ranks that differ from this one in `cp` alone; None if it is not split."""

    @property
    def here(self) -> Coordinates:
        """Where this rank is."""
        return coordinates_of(self.degrees, self.rank)

    @property
    def data_rank(self) -> int:
        """Which slice of each batch this rank reads."""
        return data_rank(self.degrees, self.rank)

    def part(self, *names: str) -> DeviceMesh | None:
        """The mesh of those dimensions that are split, in this order; None if none of them is."""
        wanted = tuple(name for name in names if getattr(self.degrees.sharing, name) > 1)
        if not wanted:
            return None
        return self.devices[wanted[0] if len(wanted) == 1 else wanted]

    def group(self, name: str) -> dist.ProcessGroup | None:
        """The ranks that differ from this one in that dimension alone; None if it is not split."""
        part = self.part(name)
        return None if part is None else part.get_group()


def mesh_of(degrees: Degrees, rank: int, device: torch.device) -> Mesh:
    """A collective: every rank makes every group."""
    sequence = _devices(degrees, device)["cp"].get_group() if degrees.cp > 1 else None
    return Mesh(degrees, rank, _devices(degrees.sharing, device), sequence)


def _devices(degrees: Degrees, device: torch.device) -> DeviceMesh:
    split = [(name, count) for name, count in degrees if count > 1] or [("dp", 1)]
    names, shape = zip(*split, strict=True)
    return init_device_mesh(device.type, shape, mesh_dim_names=names)
