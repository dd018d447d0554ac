"""What there is: how many ranks for the degrees that were asked for, how large a model is, what ranks have."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
from torch import nn

from windlass.train import process
from windlass.train.mesh.choose import AUTO, Machine
from windlass.train.mesh.degrees import Degrees, degrees_of, refuse_what_is_not_there


def count_parameters(build: Callable[[], nn.Module]) -> int:
    """Of the whole model, counted without any memory for them."""
    with torch.device("meta"):
        return sum(each.numel() for each in build().parameters())


def machine_of(world: process.World) -> Machine:
    """On CPUs the ranks of a node share its memory."""
    if world.device.type == "cuda":
        memory = torch.cuda.get_device_properties(world.device).total_memory
    else:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // world.local_size
    return Machine(world.size, world.local_size, memory)


def degrees_asked(mesh: str) -> Degrees | None:
    """What a text means for the ranks that there are; None for what the model is to choose. Raises TrainError."""
    if mesh == AUTO:
        return None
    found = degrees_of(mesh, int(os.environ.get("WORLD_SIZE", "1")))
    refuse_what_is_not_there(found)
    return found
