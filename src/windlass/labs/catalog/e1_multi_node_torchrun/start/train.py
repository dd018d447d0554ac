"""A regression under DDP that resumes from its checkpoint, and reports every start of its ranks to runs/JOB.json.

This file needs no change.
"""

import argparse
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

GLOBAL_BATCH = 24
"""Divisible by 1, 2, 3 and 4 ranks."""
JOB = os.environ.get("WINDLASS_JOB_ID", "torchrun")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two steps")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).double())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = Path(f"checkpoint-{JOB}.pt")
    losses, starts = resume(state, model, optimizer)
    starts.append({"world": world, "nodes": nodes(), "step": len(losses)})
    if rank == 0:
        print(f"start {len(starts)}: {world} ranks on {starts[-1]['nodes']} nodes, from step {len(losses)}", flush=True)

    while len(losses) < args.steps:
        inputs, targets = (part[rank::world] for part in batch(len(losses)))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        mean = loss.detach() / world
        dist.all_reduce(mean)
        losses.append(mean.item())
        if rank == 0:
            save(state, model, optimizer, losses, starts)
        time.sleep(args.pause)
    if rank == 0:
        write(losses, starts)
    dist.destroy_process_group()


def nodes() -> int:
    """Return the number of agents: torchrun gives all ranks of one agent the same GROUP_RANK."""
    groups: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(groups, os.environ.get("GROUP_RANK", os.environ.get("NODE_RANK", "0")))
    return len(set(groups))


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return all samples of a step. They are the same for any number of ranks."""
    inputs = torch.randn(GLOBAL_BATCH, 8, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
    return inputs, torch.sin(inputs.sum(1, keepdim=True))


def resume(state: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[list[float], list[dict[str, int]]]:
    if not state.exists():
        return [], []
    saved = torch.load(state)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return saved["losses"], saved["starts"]


def save(
    state: Path, model: nn.Module, optimizer: torch.optim.Optimizer, losses: list[float], starts: list[dict[str, int]]
) -> None:
    """Replace the checkpoint. The model is whole on each rank under DDP, so one rank can write it."""
    new = state.with_suffix(".new")
    parts = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "starts": starts}
    torch.save(parts, new)
    new.replace(state)


def write(losses: list[float], starts: list[dict[str, int]]) -> None:
    text = json.dumps({"losses": losses, "starts": starts})
    name = f"runs/{JOB}.json"
    Path("runs").mkdir(exist_ok=True)
    Path(name).write_text(text)
    print(f"{len(losses)} steps, last loss {losses[-1]:.12f}")
    print(f"wrote {name} {hashlib.sha256(text.encode()).hexdigest()[:16]}", flush=True)


if __name__ == "__main__":
    main()
