"""Job 4: a product on the device of each rank."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
product = torch.full((8, 8), 2.0, device=device) @ torch.ones(8, 8, device=device)
total = product.sum().cpu()
dist.all_reduce(total)
if dist.get_rank() == 0:
    print(f"device: the products of all ranks add up to {total:.1f}")
dist.destroy_process_group()
