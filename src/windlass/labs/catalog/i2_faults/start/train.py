"""A small training by `windlass.train` that notes the samples of every step: python train.py --to runs/NAME

Each rank appends a line to samples/JOB.jsonl for each step that it has done. This file needs no change.
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

from windlass import train

BATCH = 24


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", required=True, help="folder of the checkpoints")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--pause", type=float, default=0.2, help="seconds of each step, so that there is time for a fault")
    args = parser.parse_args()
    with train.init(seed=7, report_every=10) as run:
        model, optimizer = run.parallelize(network, optimizer=torch.optim.SGD, lr=0.05)
        data = run.data(samples(), global_batch=BATCH)
        checkpoints = run.checkpoint(args.to, run.state(model, optimizer, data), every="5 steps", keep=2)
        for batch in checkpoints.resume().steps(args.steps):
            time.sleep(args.pause)
            loss = run.backward(model, batch, nn.functional.mse_loss)
            run.step(optimizer, loss=loss)
            note(run, batch)
        run.print(f"step {args.steps}: sum of parameters {total(model):.9f}")


def network():
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)).double()


def samples():
    random = torch.Generator().manual_seed(1)
    inputs = torch.randn(240, 8, generator=random, dtype=torch.float64)
    return TensorDataset(inputs, torch.sin(inputs.sum(1, keepdim=True)))


def total(model):
    return sum(value.detach().sum().item() for value in model.parameters())


def note(run, batch):
    """Append the step, the number of ranks and the samples of this rank; O_APPEND keeps lines of ranks apart."""
    Path("samples").mkdir(exist_ok=True)
    line = {"step": batch.step, "ranks": run.world.size, "samples": list(batch.indices)}
    with open(f"samples/{os.environ.get('WINDLASS_JOB_ID', 'plain')}.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
