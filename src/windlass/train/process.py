"""Joining the other ranks, and leaving them: process groups, the device, and a group for what is agreed on.

`torch.distributed.nn` is imported here because its default arguments hold the first process group: imported after that
is destroyed, it can abort at the very end of a process (torch 2.13).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn
from torch._C._distributed_c10d import HashStore

from windlass import wire
from windlass.train.device import device_of, identity_of, shared

_PATIENCE = timedelta(minutes=10)
"""How long a collective waits for a rank that is silent, when nobody else has noticed."""


@dataclass(frozen=True, slots=True)
class World:
    """This process among the ranks of one generation."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    device: torch.device
    control: dist.ProcessGroup
    """Of all ranks, on gloo: for a few integers at each step, which never wait for a stream of a GPU."""

    @property
    def is_first(self) -> bool:
        """Whether this rank speaks for all."""
        return self.rank == 0


def join(environment: Mapping[str, str] | None = None) -> World:
    """Meet the ranks that torchrun's variables name; without them be a world of one.

    Raises TrainError for GPUs that do not come out even, before anything is sent.
    """
    env = os.environ if environment is None else environment
    rank, size = int(env.get("RANK", "0")), int(env.get("WORLD_SIZE", "1"))
    local_rank, local_size = int(env.get("LOCAL_RANK", "0")), int(env.get("LOCAL_WORLD_SIZE", str(size)))
    device = device_of(local_rank, local_size)
    backend = "nccl" if device.type == "cuda" else "gloo"
    if not dist.is_initialized():
        if "MASTER_ADDR" in env:
            dist.init_process_group(backend, timeout=_PATIENCE)
        else:
            dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1)
    control = dist.new_group(backend="gloo", timeout=_PATIENCE)
    assert isinstance(control, dist.ProcessGroup)  # noqa: S101 - this rank is in it
    if device.type == "cuda":
        _tell_of_sharing(device, control, is_first=rank == 0)
    return World(rank, size, local_rank, local_size, device, control)


def _tell_of_sharing(device: torch.device, control: dist.ProcessGroup, *, is_first: bool) -> None:
    """A GPU that ranks share may be meant so: it is said aloud. A collective."""
    gpus: list[Any] = [""] * dist.get_world_size(control)
    dist.all_gather_object(gpus, identity_of(device), group=control)
    for remark in shared(gpus) if is_first else ():
        sys.stderr.write(f"windlass: {remark}\n")


def has_agent_store() -> bool:
    """Whether the store is an agent's: then it is there, and anew for each generation, whatever rank is lost."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and wire.AGENT_SOCKET in os.environ


def leave() -> None:
    """Give the process groups back. Nothing of other ranks is waited for."""
    if dist.is_initialized():
        dist.destroy_process_group()
