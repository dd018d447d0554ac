"""The data of the lab: 256 samples with an input of 8 values and a target. This file needs no change."""

import torch
from torch.utils.data import TensorDataset


def samples():
    random = torch.Generator().manual_seed(1)
    inputs = torch.randn(256, 8, generator=random)
    return TensorDataset(inputs, torch.sin(inputs.sum(1, keepdim=True)))
