"""Computes the save interval that loses the least time to saves and failures. Pure.

J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974; J. T. Daly, FGCS 22(3),
2006: with cost C of a save and mean time M between failures, the optimum is sqrt(2 C M).
"""

from __future__ import annotations

import math
from typing import NamedTuple

_MAX_SAVE_COST = 0.01
"""Maximum fraction of time for saves while no failure was observed, because the failure rate is then unknown."""


class IntervalSuggestion(NamedTuple):
    """Seconds between two saves, and the reason."""

    seconds: float
    why: str


def suggest_interval(stall: float, duration: float, failures: int, observed: float) -> IntervalSuggestion:
    """Return the best save interval for measured costs and failures.

    `stall`: seconds that a save delays training. `duration`: seconds until it is good. A save that takes long in the
    background bounds the interval from below, because one save is in flight at a time.
    """
    if failures:
        between = observed / failures
        best = math.sqrt(2 * stall * between)
        lost = stall / best + best / 2 / between if best else 0.0
        cost, mtbf = _format_time(stall), _format_time(between)
        why = (
            f"a save delays training by {cost}, and a failure occurs every {mtbf}: sqrt(2 × {cost} × {mtbf}) = "
            f"{_format_time(best)}; {lost:.1%} of the time is lost to saves and failures"
        )
    else:
        best = stall / _MAX_SAVE_COST
        why = (
            f"a save delays training by {_format_time(stall)}, and nothing failed in {_format_time(observed)}: "
            f"at {_format_time(best)} saves cost {_MAX_SAVE_COST:.0%}"
        )
    if best < duration:
        return IntervalSuggestion(
            duration, f"{why}; but a save takes {_format_time(duration)} in the background, and only one runs at a time"
        )
    return IntervalSuggestion(best, why)


def _format_time(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"
