"""How long a run puts up with saves that fail: when the next is tried, and when training for nothing ends. Pure."""

from __future__ import annotations

TRIES = 5
"""So many in a row fail at least,"""
INTERVALS = 3
"""and for so many intervals there was no good checkpoint, before a run ends."""
_FIRST, _LONGEST = 10.0, 300.0


def pause(failures: int) -> float:
    """Seconds from the failure of so many in a row to the next try, where none is due before."""
    return min(_LONGEST, _FIRST * 2.0 ** (min(failures, 20) - 1))


def hopeless(failures: int, intervals: float) -> bool:
    """Whether to end: what is trained now would be lost. `intervals`: since the last good checkpoint."""
    return failures >= TRIES and intervals >= INTERVALS
