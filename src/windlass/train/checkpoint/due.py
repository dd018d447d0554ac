"""When the next save is due, by steps or by time. Pure: whoever's clock decides passes it in."""

from __future__ import annotations

import re
from dataclasses import dataclass

from windlass.train.checkpoint.store.errors import OptionError

AUTO = "auto"
_UNTIL_MEASURED = 60.0
"""Seconds to the first save, from which the interval is found."""
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TIMES = re.compile(r"(?=.)(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?")
_STEPS = re.compile(r"(\d{1,12}) *steps?")


@dataclass(frozen=True, slots=True)
class Every:
    """Either so many steps or so many seconds."""

    steps: int | None = None
    seconds: float | None = None
    by_cost: bool = False
    """The seconds are a beginning: what saves are measured to cost, and how often something fails, decides."""


def every_of(text: str) -> Every:
    """What "500 steps", "10m", "1h30m" or "auto" means. Raises OptionError, whose text says what to write."""
    plain = text.strip()
    if plain == AUTO:
        return Every(seconds=_UNTIL_MEASURED, by_cost=True)
    if (steps := _STEPS.fullmatch(plain)) and int(steps[1]):
        return Every(steps=int(steps[1]))
    if times := _TIMES.fullmatch(plain):
        seconds = sum(int(count or 0) * _UNITS[unit] for count, unit in zip(times.groups(), "dhms", strict=True))
        if seconds:
            return Every(seconds=seconds)
    raise OptionError(
        f"every={text[:40]!r}: write a time such as 10m or 1h30m, a number of steps as 500 steps, or auto"
    )


def due(every: Every, step: int, now: float, last_step: int, last_at: float) -> bool:
    """Whether to save after `step`. `last_…`: of the last save, or of the start; times in seconds of any one clock."""
    if every.steps is not None:
        return step > last_step and step // every.steps > last_step // every.steps
    return step > last_step and now - last_at >= (every.seconds or 0.0)


def intervals(every: Every, step: int, now: float, last_step: int, last_at: float) -> float:
    """How many intervals have passed since the last save, or the start; whole ones and parts."""
    if every.steps is not None:
        return (step - last_step) / every.steps
    return (now - last_at) / (every.seconds or 1.0)
