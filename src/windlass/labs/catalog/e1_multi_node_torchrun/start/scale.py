"""A training whose steps cost something: each sample keeps its rank busy for a while. This file needs no change."""

import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

from windlass import train

GLOBAL_BATCH = 16
SECONDS_A_SAMPLE = 0.01
"""The rank sleeps so long for each sample, as a stand-in for a GPU of its own: ranks here share the cores."""


def main() -> None:
    inputs = torch.randn(4096, 64, generator=torch.Generator().manual_seed(1))
    with train.init(report_every=10) as run:
        model, optimizer = run.parallelize(build, train.Plan(), torch.optim.AdamW, lr=1e-3)
        data = run.data(TensorDataset(inputs, inputs.flip(1)), global_batch=GLOBAL_BATCH)
        for batch in run.steps(data, 10_000):
            loss = run.backward(model, batch, nn.functional.mse_loss)
            run.step(optimizer, loss=loss)


def build() -> nn.Module:
    return nn.Sequential(SleepingDevice(), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))


class SleepingDevice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(SECONDS_A_SAMPLE * len(x))
        return x


if __name__ == "__main__":
    main()
