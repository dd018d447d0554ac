"""Comparison of the losses of two runs."""

from __future__ import annotations

import math
from collections.abc import Sequence


def are_equal(losses: Sequence[float], others: Sequence[float], tolerance: float) -> bool:
    """Whether two runs have equally many losses, and each pair differs by at most `tolerance` of the larger one."""
    return len(losses) == len(others) and all(
        math.isclose(loss, other, rel_tol=tolerance) for loss, other in zip(losses, others, strict=True)
    )
