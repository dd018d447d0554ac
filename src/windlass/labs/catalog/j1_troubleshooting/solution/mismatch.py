"""Job 2: each rank reads its part of the text and trains one table of words together with the others."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TEXT = "the ranks of a gang start together and the ranks of a gang end together or a rank waits for ever".split()

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(7)
part = TEXT[rank * len(TEXT) // world : (rank + 1) * len(TEXT) // world]
words = sorted(set(TEXT))
table = DistributedDataParallel(nn.Embedding(len(words), 4))
table(torch.tensor([words.index(word) for word in part])).sum().backward()
if rank == 0:
    print(f"mismatch: a table of {len(words)} words, the gradients add up to {table.module.weight.grad.sum():.1f}")
dist.destroy_process_group()
