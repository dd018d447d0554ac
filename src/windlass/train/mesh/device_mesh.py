"""torch's device mesh for given degrees, and the submeshes that each kind of parallelism uses."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from windlass.train.mesh.degrees import Coordinates, Degrees, coordinates_of, data_rank


@dataclass(frozen=True, slots=True)
class Mesh:
    """The ranks by their coordinates. `devices` has the dimensions of `Degrees.parameter_degrees`, so never `cp`."""

    degrees: Degrees
    rank: int
    devices: DeviceMesh
    sequence: dist.ProcessGroup | None = None
    """Group of the ranks that differ from this one in `cp` alone; None if `cp` is 1."""

    @property
    def coordinates(self) -> Coordinates:
        """Coordinates of this rank."""
        return coordinates_of(self.degrees, self.rank)

    @property
    def data_rank(self) -> int:
        """Index of the slice of each batch that this rank reads."""
        return data_rank(self.degrees, self.rank)

    def submesh(self, *names: str) -> DeviceMesh | None:
        """Return the mesh of those of the named dimensions that are split, in this order; None if none is."""
        wanted = tuple(name for name in names if getattr(self.degrees.parameter_degrees, name) > 1)
        if not wanted:
            return None
        return self.devices[wanted[0] if len(wanted) == 1 else wanted]

    def group(self, name: str) -> dist.ProcessGroup | None:
        """Return the group of ranks that differ from this one in one dimension alone; None if it is not split."""
        part = self.submesh(name)
        return None if part is None else part.get_group()


def build_mesh(degrees: Degrees, rank: int, device: torch.device) -> Mesh:
    """Build the mesh of this rank. A collective: every rank creates every group."""
    sequence = _build_device_mesh(degrees, device)["cp"].get_group() if degrees.cp > 1 else None
    return Mesh(degrees, rank, _build_device_mesh(degrees.parameter_degrees, device), sequence)


def _build_device_mesh(degrees: Degrees, device: torch.device) -> DeviceMesh:
    split = [(name, count) for name, count in degrees if count > 1] or [("dp", 1)]
    names, shape = zip(*split, strict=True)
    return init_device_mesh(device.type, shape, mesh_dim_names=names)
