"""DDP on one node, for one rank or several. Each rank has a process that reads batches, and gets them through /dev/shm.

This file needs no change.
"""

import json
import os
import sys
from pathlib import Path

DATA = Path("/data")
SAMPLES = len(list(DATA.glob("*.npy")))
if SAMPLES == 0:
    sys.exit(f"no sample is in {DATA}")

import numpy as np
import torch
import torch._dynamo  # DDP needs it: ranks that are forks have it already
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

BATCH = 5
"""Samples in one step of a rank."""


class Samples(Dataset):
    """The files in DATA: number of the sample, and its values as floats of 4 bytes."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, number: int) -> tuple[int, Tensor]:
        return number, torch.from_numpy(np.load(DATA / f"{number}.npy")).float() / 255


def main() -> None:
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    shared = os.statvfs("/dev/shm")
    mib = shared.f_blocks * shared.f_frsize >> 20
    if rank == 0:
        print(f"{world} ranks, batches of {BATCH * 4} MiB, /dev/shm of {mib} MiB", flush=True)
    if world > 1:
        dist.init_process_group("gloo")
    try:
        parts = train(rank, world)
    except RuntimeError as error:  # a launcher may name the error of one rank only, and another one came first
        print(f"rank {rank}: {error}", file=sys.stderr, flush=True)
        raise
    if rank == 0:
        print(f"samples read by each rank: {[len(part) for part in parts]}", flush=True)
        Path("/dev/termination-log").write_text(json.dumps({"parts": parts}))
    if world > 1:
        dist.destroy_process_group()


def train(rank: int, world: int) -> list[list[int]]:
    """Train for one epoch, and return the numbers of the samples that each rank read."""
    model = nn.Linear(1 << 20, 1)
    if world > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-7)
    sampler = DistributedSampler(Samples(), num_replicas=world, rank=rank)
    read = []
    for numbers, inputs in DataLoader(Samples(), BATCH, sampler=sampler, num_workers=1, prefetch_factor=1):
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        read += numbers.tolist()
    parts = [read]
    if world > 1:
        parts = [[] for _ in range(world)]
        dist.all_gather_object(parts, read)
        dist.barrier()  # the thread of gloo frees the tensors of the gather before the group is destroyed
    return parts


def launch(ranks: int) -> None:
    """Start ranks as torchrun does, as forks of this process instead of new programs: torch is loaded once."""
    config = LaunchConfig(
        1, 1, ranks, run_id="c2", start_method="fork", rdzv_backend="c10d", rdzv_endpoint="localhost:0", max_restarts=0
    )
    elastic_launch(config, main)()


if __name__ == "__main__":
    launch(int(sys.argv[1])) if sys.argv[1:] else main()
