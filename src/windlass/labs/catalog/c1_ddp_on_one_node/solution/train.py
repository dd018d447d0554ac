"""A small regression under DistributedDataParallel: one process, torchrun, or `windlass run`."""

import os

import torch
import torch.distributed as dist
import torch.distributed.nn  # imported late, it would hold the group
from report import Report, samples
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

GLOBAL_BATCH = 32
"""Samples in one step, over all ranks together."""
EPOCHS = 4
SEED = 7


def main() -> None:
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        dist.init_process_group("gloo")
    train(rank, world)
    if world > 1:
        dist.destroy_process_group()  # after `train`: nothing holds the model, and so the group, any more


def train(rank: int, world: int) -> None:
    torch.manual_seed(SEED)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).double()
    if world > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    data = samples()
    sampler = DistributedSampler(data, num_replicas=world, rank=rank, seed=SEED)
    batches = DataLoader(data, batch_size=GLOBAL_BATCH // world, sampler=sampler)

    report = Report(rank, world)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for numbers, inputs, targets in batches:
            loss = nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            report.step(epoch, numbers, loss)
    report.write(model)


if __name__ == "__main__":
    main()
