"""Scales a learning rate to another batch size, on request only. Windlass never changes a learning rate by itself.

The global batch is the same on any number of ranks, so the learning rate is too. A run needs another one only when its
author changes the batch.
"""

from __future__ import annotations

import math
import os
from typing import Literal

from windlass.train.errors import TrainError

ScalingRule = Literal["linear", "sqrt"]


def scaled_lr(lr: float, *, batch: int, reference: int, rule: ScalingRule = "linear") -> float:
    """Return the learning rate for a batch of `batch` samples, given `lr` tuned for `reference` samples.

    linear: proportional, correct for SGD (Goyal et al. 2017). sqrt: with the square root, correct for Adam (Malladi et
    al. 2022). The first rank prints the change in one line. Raises TrainError for another rule, or for sizes below one.
    """
    if batch < 1 or reference < 1:
        raise TrainError(f"scaled_lr: batch={batch} and reference={reference} must be at least one sample")
    if rule not in ("linear", "sqrt"):
        raise TrainError(f"scaled_lr: rule={rule!r}: use linear or sqrt")
    growth = batch / reference
    factor = growth if rule == "linear" else math.sqrt(growth)
    found = lr * factor
    if os.environ.get("RANK", "0") == "0":
        why = f"a batch of {batch:,} samples instead of {reference:,} ({rule})"
        print(f"learning rate {lr:g} × {factor:.4g} = {found:.4g}: {why}", flush=True)  # noqa: T201 - never silent
    return found
