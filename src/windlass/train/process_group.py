"""Joins and leaves torch's process groups; `device` selects the device of a rank.

`torch.distributed.nn` is imported here because its default arguments hold the first process group: imported after that
group is destroyed, it can abort at the very end of a process (torch 2.13).
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
from windlass.train import authentication
from windlass.train.device import describe_shared_gpus, gpu_uuid, select_device

_COLLECTIVE_TIMEOUT = timedelta(minutes=10)
"""Timeout of a collective that waits for a silent rank, where no other check has noticed it."""
_COLLECTIVE_TIMEOUT_WITH_AGENT = timedelta(hours=1)
"""The same where an agent detects hangs: longer than it lets a rank compile or evaluate while others wait for it."""


@dataclass(frozen=True, slots=True)
class World:
    """This process among the ranks of one generation."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    device: torch.device
    control: dist.ProcessGroup
    """A gloo group of all ranks for a few integers at each step; it never waits for a GPU stream."""

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that prints on behalf of all."""
        return self.rank == 0


def join(environment: Mapping[str, str] | None = None) -> World:
    """Initialize the process groups that torchrun's variables describe; without the variables, a world of one rank.

    Raises TrainError for a number of GPUs that does not fit the ranks, before anything is sent.
    """
    env = os.environ if environment is None else environment
    rank, size = int(env.get("RANK", "0")), int(env.get("WORLD_SIZE", "1"))
    local_rank, local_size = int(env.get("LOCAL_RANK", "0")), int(env.get("LOCAL_WORLD_SIZE", str(size)))
    device = select_device(local_rank, local_size)
    backend = "nccl" if device.type == "cuda" else "gloo"
    authentication.authenticate_collectives()
    timeout = _COLLECTIVE_TIMEOUT_WITH_AGENT if wire.AGENT_SOCKET in env else _COLLECTIVE_TIMEOUT
    if not dist.is_initialized():
        if "MASTER_ADDR" in env:
            dist.init_process_group(backend, timeout=timeout)
        else:
            dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1)
    control = dist.new_group(backend="gloo", timeout=timeout)
    assert isinstance(control, dist.ProcessGroup)  # noqa: S101 - this rank is in it
    if device.type == "cuda":
        _warn_of_shared_gpus(device, control, is_first=rank == 0)
    return World(rank, size, local_rank, local_size, device, control)


def _warn_of_shared_gpus(device: torch.device, control: dist.ProcessGroup, *, is_first: bool) -> None:
    """Print a warning for GPUs that several ranks share, which may be intended. A collective."""
    gpus: list[Any] = [""] * dist.get_world_size(control)
    dist.all_gather_object(gpus, gpu_uuid(device), group=control)
    for remark in describe_shared_gpus(gpus) if is_first else ():
        sys.stderr.write(f"windlass: {remark}\n")


def has_agent_store() -> bool:
    """Whether the store belongs to an agent: it then outlives every rank, and each generation has a fresh one."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and wire.AGENT_SOCKET in os.environ


def leave() -> None:
    """Destroy the process groups, without waiting for other ranks."""
    if dist.is_initialized():
        dist.destroy_process_group()
