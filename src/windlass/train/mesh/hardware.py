"""Reads the facts for the choice of a mesh (`auto_mesh`): requested degrees, size of a model, memory of a rank."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
from torch import nn

from windlass.train import process_group
from windlass.train.mesh.auto_mesh import AUTO, Hardware
from windlass.train.mesh.degrees import Degrees, parse_degrees, refuse_unsupported


def count_parameters(build: Callable[[], nn.Module]) -> int:
    """Count the parameters of the whole model without allocating memory for them."""
    with torch.device("meta"):
        return sum(each.numel() for each in build().parameters())


def detect_hardware(world: process_group.World) -> Hardware:
    """Return the hardware of this rank. On CPUs the ranks of a node share its memory."""
    if world.device.type == "cuda":
        memory = torch.cuda.get_device_properties(world.device).total_memory
    else:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // world.local_size
    return Hardware(world.size, world.local_size, memory)


def requested_degrees(mesh: str) -> Degrees | None:
    """Parse the requested mesh for the existing ranks; None for `auto`, which the model decides. Raises TrainError."""
    if mesh == AUTO:
        return None
    found = parse_degrees(mesh, int(os.environ.get("WORLD_SIZE", "1")))
    refuse_unsupported(found)
    return found
