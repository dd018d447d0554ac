"""Reads and writes durations as users write them, in integer milliseconds.

Two ways to write one, the same in files and on the command line:
- with units, largest first: "90s", "10m", "1h30m", "2d", "500ms"
- as Slurm's --time: "MM:SS", "HH:MM:SS", "D-HH", "D-HH:MM", "D-HH:MM:SS"
A plain number is refused: Slurm reads minutes and Kubernetes seconds, and a wrong guess would kill the job after a
sixtieth of its time.
"""

from __future__ import annotations

import re

MAX_DURATION = 100 * 365 * 86_400_000
"""A hundred years; longer durations are cut to this."""

UNITS = r"([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?([0-9]{1,9}ms)?"
SLURM = r"([0-9]{1,6}-[0-9]{1,2}(:[0-9]{1,2}){0,2}|[0-9]{1,6}(:[0-9]{1,2}){1,2})"
PATTERN = rf"^(?=.)({UNITS}|{SLURM})$"
"""Regular expression of a duration, valid in JSON Schema and in Python."""

_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}


def parse_duration(text: str) -> int:
    """A duration in milliseconds. Raises ValueError with a text that shows what to write."""
    plain = text.strip()
    if plain.isdecimal():
        raise ValueError(f"expects a duration with a unit: {plain[:20]}s, {plain[:20]}m or {plain[:20]}h")
    if plain and re.fullmatch(UNITS, plain):
        parts = re.findall(r"([0-9]+)([a-z]+)", plain)
        return min(sum(int(amount) * _MS[unit] for amount, unit in parts), MAX_DURATION)
    if re.fullmatch(SLURM, plain):
        return min(_slurm(plain), MAX_DURATION)
    raise ValueError(f"expects a duration such as 90s, 10m, 1h30m or 1-12:00:00, not {text[:40]!r}")


def _slurm(text: str) -> int:
    days, dash, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:  # D-HH[:MM[:SS]]
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    else:  # MM:SS or HH:MM:SS
        hours, minutes, seconds = (0, 0, *parts)[-3:]
    return ((int(days or 0) * 24 + hours) * 3600 + minutes * 60 + seconds) * 1000


def clock_parts(seconds: int) -> tuple[int, int, int, int]:
    """Days, hours, minutes and seconds of a duration, as `SLURM` writes them."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return *divmod(hours, 24), minutes, seconds


def format_duration(ms: int) -> str:
    """The shortest way to write it exactly: "1h30m". Inverse of `parse_duration`."""
    written = ""
    for unit, size in _MS.items():
        count, ms = divmod(ms, size)
        written += f"{count}{unit}" if count else ""
    return written or "0s"
