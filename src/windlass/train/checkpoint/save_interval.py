"""Decides when the next save is due, by steps or by time. Pure: the caller passes its clock."""

from __future__ import annotations

import re
from dataclasses import dataclass

from windlass.train.checkpoint.store.errors import OptionError

AUTO = "auto"
_FIRST_INTERVAL_S = 60.0
"""Seconds to the first save, whose cost determines the interval."""
_UNIT_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TIMES = re.compile(r"(?=.)(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?")
_STEPS = re.compile(r"(\d{1,12}) *steps?")


@dataclass(frozen=True, slots=True)
class SaveInterval:
    """An interval in steps or in seconds."""

    steps: int | None = None
    seconds: float | None = None
    is_adaptive: bool = False
    """Whether the seconds are only the start value, replaced by measured save costs and the failure rate."""


def parse_interval(text: str) -> SaveInterval:
    """Parse "500 steps", "10m", "1h30m" or "auto". Raises OptionError, whose text says what to write."""
    plain = text.strip()
    if plain == AUTO:
        return SaveInterval(seconds=_FIRST_INTERVAL_S, is_adaptive=True)
    if (steps := _STEPS.fullmatch(plain)) and int(steps[1]):
        return SaveInterval(steps=int(steps[1]))
    if times := _TIMES.fullmatch(plain):
        seconds = sum(int(count or 0) * _UNIT_SECONDS[unit] for count, unit in zip(times.groups(), "dhms", strict=True))
        if seconds:
            return SaveInterval(seconds=seconds)
    raise OptionError(
        f"every={text[:40]!r}: write a time such as 10m or 1h30m, a number of steps as 500 steps, or auto"
    )


def is_due(every: SaveInterval, step: int, now: float, last_step: int, last_at: float) -> bool:
    """Whether to save after `step`. `last_…`: of the last save, or of the start; times in seconds of any one clock."""
    if every.steps is not None:
        return step > last_step and step // every.steps > last_step // every.steps
    return step > last_step and now - last_at >= (every.seconds or 0.0)


def elapsed_intervals(every: SaveInterval, step: int, now: float, last_step: int, last_at: float) -> float:
    """Return the number of intervals since the last save, or the start, with its fraction."""
    if every.steps is not None:
        return (step - last_step) / every.steps
    return (now - last_at) / (every.seconds or 1.0)
