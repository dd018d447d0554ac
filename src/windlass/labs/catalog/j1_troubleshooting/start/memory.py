"""Job 3: a step of 4096 samples. The limit stands for the memory of a GPU."""

import torch
import torch.distributed as dist
from limit import limit_memory
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BATCH = 4096
"""Samples in a step of one rank."""

def network():
    return nn.Sequential(nn.Linear(16, 2048), nn.Tanh(), nn.Linear(2048, 1024), nn.Tanh(), nn.Linear(1024, 1))


dist.init_process_group("gloo")
torch.manual_seed(7)
model = DistributedDataParallel(network())
inputs, targets = torch.ones(BATCH, 16), torch.zeros(BATCH, 1)
limit_memory(mib=95)
done = 0
loss = nn.functional.mse_loss(model(inputs), targets)
loss.backward()
done += len(inputs)
norm = sum(value.grad.norm() ** 2 for value in model.parameters()) ** 0.5
if dist.get_rank() == 0:
    print(f"memory: {done} samples in the step, the norm of the gradients is {norm:.3f}")
dist.destroy_process_group()
