"""The digits example as a function: each call is a job of two ranks, and the test accuracy returns to the caller.

windlass up -d
python examples/digits/train_function.py
"""

import argparse

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import windlass
from train import BATCH, accuracy, cnn, destroy_process_group, digits, init_process_group, print_once, train_one_epoch


@windlass.job(name="digits", nodes=2, gpus=1)
def train_digits(epochs: int, lr: float = 2e-3) -> dict[str, float]:
    """Train on all ranks of the job; return the last loss and the test accuracy."""
    device = init_process_group()
    train, test = digits()
    torch.manual_seed(0)
    model = DistributedDataParallel(cnn().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    sampler = DistributedSampler(train, seed=0, drop_last=True)
    batches = DataLoader(train, BATCH // dist.get_world_size(), sampler=sampler, drop_last=True)
    loss = 0.0
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        loss = train_one_epoch(model, optimizer, batches, device)
        print_once(f"epoch {epoch + 1}/{epochs}  loss {loss:.4f}")
    result = {"loss": loss, "accuracy": accuracy(model, test, device)}
    del model, optimizer
    destroy_process_group()
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    job = train_digits.submit(parser.parse_args().epochs)
    for line in job.logs(follow=True):
        print(f"[r{line.rank}] {line.text}")
    print(job.result())
