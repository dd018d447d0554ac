"""Detects loss spikes. Pure: ranks with the same losses reach the same verdict.

A loss is a spike if it exceeds the median of the last steps by `SPREAD_FACTOR` times their spread: the median absolute
deviation times 1.4826, which equals the standard deviation of a normal distribution. Single outliers change neither.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

WINDOW_STEPS = 100
"""Number of steps that a loss is compared with."""
MIN_STEPS = 20
"""Minimum number of steps for a comparison."""
SPREAD_FACTOR = 8.0
_MAD_TO_SIGMA = 1.4826
_MIN_RELATIVE_SPREAD = 0.01
"""Minimum spread relative to the median, for losses that hardly change."""


class Spike(NamedTuple):
    """A loss spike and the statistics that it was compared with."""

    loss: float
    limit: float
    median: float
    spread: float
    steps: int

    def __str__(self) -> str:
        return (
            f"the loss of {self.loss:.4g} is above {self.limit:.4g}, the median of {self.steps} steps "
            f"({self.median:.4g}) and {SPREAD_FACTOR:g} times their spread ({self.spread:.2g})"
        )


def detect_spike(loss: float, recent: Sequence[float]) -> Spike | None:
    """Return the spike; None for a normal loss, or if there are too few steps to compare with."""
    if len(recent) < MIN_STEPS:
        return None
    median = statistics.median(recent)
    spread = max(
        _MAD_TO_SIGMA * statistics.median(abs(each - median) for each in recent), _MIN_RELATIVE_SPREAD * abs(median)
    )
    limit = median + SPREAD_FACTOR * spread
    return Spike(loss, limit, median, spread, len(recent)) if loss > limit else None


class LossWindow:
    """The losses of the last steps that were taken."""

    def __init__(self, losses: Iterable[float] = ()) -> None:
        self.losses: deque[float] = deque(losses, maxlen=WINDOW_STEPS)

    def check(self, loss: float) -> Spike | None:
        """Return the spike, as `detect_spike`; a normal loss joins the window."""
        found = detect_spike(loss, self.losses)
        if found is None:
            self.losses.append(loss)
        return found
