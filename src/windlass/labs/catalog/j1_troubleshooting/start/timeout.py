"""Job 1: trains, and evaluates on rank 0 after each epoch."""

from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=6))  # half an hour by default; NCCL has ten minutes
rank = dist.get_rank()
total = 0.0


def evaluate():
    """Return the accuracy over the samples of all ranks."""
    right = torch.tensor([90.0 + rank])
    dist.all_reduce(right)
    return right.item() / dist.get_world_size()


for epoch in range(3):
    loss = torch.tensor([1.0 / (epoch + 1)])
    dist.all_reduce(loss)
    if rank == 0:
        total += evaluate()
dist.barrier()
if rank == 0:
    print(f"timeout: accuracies add up to {total:.1f}")
dist.destroy_process_group()
