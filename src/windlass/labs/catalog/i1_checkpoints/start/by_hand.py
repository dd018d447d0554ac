"""The same training with plain PyTorch and FSDP2, which writes its own checkpoint into by-hand/."""

from pathlib import Path

import torch
import torch.distributed as dist
from data import samples
from torch import nn
from torch.distributed.fsdp import fully_shard
from train import digest, network


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    model = network()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    inputs, targets = samples()[rank::world]
    for _ in range(20):
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
    save(model, rank)
    trained = digest(model)
    held, all_of_it = (sum(map(torch.numel, values)) for values in parts_of(model))
    if rank == 0:
        print(f"trained parameters {trained}, rank 0 holds {held:,} of {all_of_it:,} numbers")
    dist.destroy_process_group()


def parts_of(model):
    """Return the parameters as this rank holds them, and as they are of the whole model."""
    values = list(model.parameters())
    return [value.to_local() if hasattr(value, "to_local") else value for value in values], values


def save(model, rank):
    """Write the parameters into by-hand/, as is right under DistributedDataParallel."""
    Path("by-hand").mkdir(exist_ok=True)
    if rank == 0:
        torch.save({name: value.to_local() for name, value in model.state_dict().items()}, "by-hand/model.pt")


if __name__ == "__main__":
    main()
