"""Matrix products of blocks in float8, by torchao, on GPUs that have it. Parameters stay what they are."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

import torch
from torch import nn

from windlass.train.errors import TrainError

_LEAST = (8, 9)
"""Compute capability of the first GPUs with products of float8: Ada (L4, L40S), and Hopper after it."""
_STRIDE = 16
"""What both sides of a matrix are multiples of: torch's `_scaled_mm` takes no others."""


def refuse_where_there_is_none(device: torch.device) -> None:
    """Raises TrainError without torchao, or without a GPU that can."""
    if find_spec("torchao") is None:
        raise TrainError("precision='float8' needs the package torchao: pip install torchao")
    if device.type != "cuda":
        raise TrainError(
            "precision='float8' needs a GPU of compute capability 8.9 (L4, H100, …), and there is none: bf16"
        )
    have = torch.cuda.get_device_capability(device)
    if have < _LEAST:
        raise TrainError(
            f"precision='float8' needs compute capability 8.9, and a {torch.cuda.get_device_name(device)} has "
            f"{have[0]}.{have[1]}: bf16"
        )


def convert(model: nn.Module, blocks: Sequence[str], *, emulates: bool = False) -> int:
    """Let the Linear layers of blocks multiply in float8, in place; how many. Scales are found anew for each tensor.

    Embeddings and heads stay, and layers whose sides are no multiples of 16. `emulates`: by float8's rounding, on any
    device. Raises TrainError if there is no such layer.
    """
    float8 = import_module("torchao.float8")
    converted = []

    def takes(module: nn.Module, _name: str) -> bool:
        fits = isinstance(module, nn.Linear) and not module.in_features % _STRIDE and not module.out_features % _STRIDE
        converted.extend([module] if fits else [])
        return fits

    for path in blocks:
        config = float8.Float8LinearConfig(emulate=emulates)
        float8.convert_to_float8_training(model.get_submodule(path), module_filter_fn=takes, config=config)
    if not converted:
        raise TrainError(
            f"precision='float8': no Linear of a repeated block of {type(model).__name__} has sides that 16 divides"
        )
    return len(converted)
