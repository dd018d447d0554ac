"""In what numbers a step is computed. Parameters, gradients and optimizer state stay fp32 throughout."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Literal

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy

from windlass.train.errors import TrainError

Precision = Literal["fp32", "bf16", "fp16", "float8"]
_TYPES: dict[str, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16, "float8": torch.bfloat16}
"""float8 is bf16 but for the matrix products of blocks."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The type of activations and of parameters in the forward pass; None: fp32 throughout."""

    low: torch.dtype | None
    float8: bool = False
    """Whether blocks multiply their matrices in float8."""

    @property
    def needs_scaling(self) -> bool:
        """Whether small gradients would be lost."""
        return self.low is torch.float16

    def sharded(self) -> MixedPrecisionPolicy:
        """For FSDP2: gathered in the low type, gradients reduced in fp32."""
        if self.low is None:
            return MixedPrecisionPolicy()
        return MixedPrecisionPolicy(param_dtype=self.low, reduce_dtype=torch.float32)

    def autocast(self, device: torch.device) -> contextlib.AbstractContextManager[object]:
        """For replicas and plain models."""
        if self.low is None:
            return contextlib.nullcontext()
        return torch.autocast(device.type, dtype=self.low)


def numbers(precision: str) -> Numbers:
    """Raises TrainError if there is no such precision."""
    if precision == "fp32":
        return Numbers(None)
    if precision not in _TYPES:
        raise TrainError(f"precision={precision!r}: there are fp32, {', '.join(_TYPES)}")
    return Numbers(_TYPES[precision], float8=precision == "float8")
