"""The precision policy of a step. Parameters, gradients and optimizer state stay fp32 throughout."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Literal

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy

from windlass.train.errors import TrainError

Precision = Literal["fp32", "bf16", "fp16", "float8"]
_TYPES: dict[str, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16, "float8": torch.bfloat16}
"""float8 is bf16 except for the matrix products of blocks."""


@dataclass(frozen=True, slots=True)
class PrecisionPolicy:
    """The type of activations and parameters in the forward pass; None: fp32 throughout."""

    dtype: torch.dtype | None
    float8: bool = False
    """Whether blocks use float8 matrix products."""

    @property
    def needs_scaling(self) -> bool:
        """Whether small gradients would underflow without loss scaling."""
        return self.dtype is torch.float16

    def fsdp_policy(self) -> MixedPrecisionPolicy:
        """Return the policy of FSDP2: gathered in the low type, gradients reduced in fp32."""
        if self.dtype is None:
            return MixedPrecisionPolicy()
        return MixedPrecisionPolicy(param_dtype=self.dtype, reduce_dtype=torch.float32)

    def autocast(self, device: torch.device) -> contextlib.AbstractContextManager[object]:
        """Return the autocast context for replicas and plain models."""
        if self.dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(device.type, dtype=self.dtype)


def parse_precision(precision: str) -> PrecisionPolicy:
    """Parse a precision. Raises TrainError for an unknown one."""
    if precision == "fp32":
        return PrecisionPolicy(None)
    if precision not in _TYPES:
        raise TrainError(f"precision={precision!r}: use fp32, {', '.join(_TYPES)}")
    return PrecisionPolicy(_TYPES[precision], float8=precision == "float8")
