"""Converts matrix products of blocks to float8 with torchao, on GPUs that support it. Parameters keep their type."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

import torch
from torch import nn

from windlass.train.errors import TrainError

_MIN_CAPABILITY = (8, 9)
"""Compute capability of the first GPUs with float8 products: Ada (L4, L40S), and Hopper after it."""
_DIVISOR = 16
"""Required divisor of both sides of a matrix: torch's `_scaled_mm` accepts no others."""


def refuse_unsupported(device: torch.device) -> None:
    """Raise TrainError without torchao, or without a GPU that supports float8."""
    if find_spec("torchao") is None:
        raise TrainError("precision='float8' needs the package torchao: pip install torchao")
    if device.type != "cuda":
        raise TrainError(
            "precision='float8' needs a GPU of compute capability 8.9 (L4, H100, …), and there is none; use bf16"
        )
    have = torch.cuda.get_device_capability(device)
    if have < _MIN_CAPABILITY:
        raise TrainError(
            f"precision='float8' needs compute capability 8.9, and a {torch.cuda.get_device_name(device)} has "
            f"{have[0]}.{have[1]}; use bf16"
        )


def convert(model: nn.Module, blocks: Sequence[str], *, emulates: bool = False) -> int:
    """Convert the Linear layers of blocks to float8 products, in place; return their number.

    Scales are dynamic per tensor.

    Embeddings, heads and layers whose sides are not multiples of 16 stay. `emulates`: use float8's rounding on any
    device. Raises TrainError if there is no such layer.
    """
    float8 = import_module("torchao.float8")
    converted = []

    def takes(module: nn.Module, _name: str) -> bool:
        fits = (
            isinstance(module, nn.Linear) and not module.in_features % _DIVISOR and not module.out_features % _DIVISOR
        )
        converted.extend([module] if fits else [])
        return fits

    for path in blocks:
        config = float8.Float8LinearConfig(emulate=emulates)
        float8.convert_to_float8_training(model.get_submodule(path), module_filter_fn=takes, config=config)
    if not converted:
        raise TrainError(
            f"precision='float8': no Linear of a repeated block of {type(model).__name__} has sides "
            "that are multiples of 16"
        )
    return len(converted)
