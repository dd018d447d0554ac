"""A learning rate for another batch: offered, and told when it is taken. Windlass changes none by itself.

As the global batch stays the same on any number of ranks, so does the learning rate; only who lets the batch grow needs
another one.
"""

from __future__ import annotations

import math
import os
from typing import Literal

from windlass.train.errors import TrainError

Rule = Literal["linear", "sqrt"]


def scaled_lr(lr: float, *, batch: int, reference: int, rule: Rule = "linear") -> float:
    """The learning rate for a batch of `batch` samples, of one that was found with `reference` samples.

    linear: in proportion, as is right for SGD (Goyal et al. 2017). sqrt: by the root of it, as is right for Adam
    (Malladi et al. 2022). The first rank says in a line what was done. Raises TrainError for another rule, or for
    sizes below one.
    """
    if batch < 1 or reference < 1:
        raise TrainError(f"scaled_lr: batch={batch} and reference={reference} are samples, one at least")
    if rule not in ("linear", "sqrt"):
        raise TrainError(f"scaled_lr: rule={rule!r}: there are linear and sqrt")
    growth = batch / reference
    factor = growth if rule == "linear" else math.sqrt(growth)
    found = lr * factor
    if os.environ.get("RANK", "0") == "0":
        why = f"a batch of {batch:,} samples instead of {reference:,} ({rule})"
        print(f"learning rate {lr:g} × {factor:.4g} = {found:.4g}: {why}", flush=True)  # noqa: T201 - never silent
    return found
