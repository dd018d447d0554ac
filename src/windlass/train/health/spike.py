"""Whether a loss is out of line with those before it. Pure, so that all ranks judge alike what they have heard alike.

A loss is a spike where it lies above the median of the last steps by `FACTOR` times their spread: the median distance
from the median, times 1.4826, which for a bell curve is its standard deviation. Neither is moved by single outliers.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

WINDOW = 100
"""Steps that a loss is compared with,"""
LEAST = 20
"""and as many there have to be at least."""
FACTOR = 8.0
_NORMAL = 1.4826
_FLAT = 0.01
"""Of the median: losses that hardly move at all are not taken for a narrow spread."""


class Spike(NamedTuple):
    """A loss that is one, and what it was compared with."""

    loss: float
    limit: float
    median: float
    spread: float
    steps: int

    def __str__(self) -> str:
        return (
            f"its loss of {self.loss:.4g} is above {self.limit:.4g}, the median of {self.steps} steps "
            f"({self.median:.4g}) and {FACTOR:g} times their spread ({self.spread:.2g})"
        )


def spike_of(loss: float, recent: Sequence[float]) -> Spike | None:
    """None where it is in line, or where there are too few to tell."""
    if len(recent) < LEAST:
        return None
    median = statistics.median(recent)
    spread = max(_NORMAL * statistics.median(abs(each - median) for each in recent), _FLAT * abs(median))
    limit = median + FACTOR * spread
    return Spike(loss, limit, median, spread, len(recent)) if loss > limit else None


class Recent:
    """The losses of the last steps that were taken."""

    def __init__(self, losses: Iterable[float] = ()) -> None:
        self.losses: deque[float] = deque(losses, maxlen=WINDOW)

    def judged(self, loss: float) -> Spike | None:
        """What `spike_of` says; a loss that is in line is one to compare the next with."""
        found = spike_of(loss, self.losses)
        if found is None:
            self.losses.append(loss)
        return found
