"""How often to save: what a save costs against what a failure loses. Pure.

J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974; J. T. Daly, FGCS 22(3),
2006: with a cost C of a save and a mean time M between failures the least is lost at intervals of sqrt(2 C M).
"""

from __future__ import annotations

import math
from typing import NamedTuple

_A_SHARE = 0.01
"""Lost to saves at most, as long as no failure was seen: what cannot be estimated is not to cost more."""


class Suggestion(NamedTuple):
    """How long to train between two saves, and why."""

    seconds: float
    why: str


def suggested(stall: float, duration: float, failures: int, observed: float) -> Suggestion:
    """From what was measured: seconds that a save keeps training waiting, seconds until it is good, failures in time.

    A save that takes long in the background bounds the interval from below, for one is in flight at a time.
    """
    if failures:
        between = observed / failures
        best = math.sqrt(2 * stall * between)
        lost = stall / best + best / 2 / between if best else 0.0
        why = (
            f"a save keeps training waiting for {_time(stall)}, and something fails every {_time(between)}: sqrt(2 × "
            f"{_time(stall)} × {_time(between)}) = {_time(best)}; {lost:.1%} of the time is lost to saves and failures"
        )
    else:
        best = stall / _A_SHARE
        why = (
            f"a save keeps training waiting for {_time(stall)}, and nothing failed in {_time(observed)}: "
            f"at {_time(best)} saves cost {_A_SHARE:.0%}"
        )
    if best < duration:
        return Suggestion(
            duration, f"{why}; but one takes {_time(duration)} in the background, and one is in flight at a time"
        )
    return Suggestion(best, why)


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"
