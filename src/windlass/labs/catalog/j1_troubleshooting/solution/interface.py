"""Job 5: ranks that talk over the interface of another cluster."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
if dist.get_rank() == 0:
    print(f"interface: the ranks add up to {total.item():.1f}")
dist.destroy_process_group()
