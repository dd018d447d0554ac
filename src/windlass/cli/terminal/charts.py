"""Draws series of numbers in a terminal: a sparkline in one line, or a chart of several lines. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_GAP = " "


def sparkline(values: Sequence[float | None], width: int) -> str:
    """One character for each part of the series, scaled from its minimum to its maximum; blank without a value."""
    cells = resample(values, width)
    present = [cell for cell in cells if cell is not None]
    if not present:
        return ""
    low, high = min(present), max(present)
    return "".join(_GAP if cell is None else _BLOCKS[_level(cell, low, high, len(_BLOCKS))] for cell in cells)


def chart_lines(values: Sequence[float | None], width: int, height: int) -> list[str]:
    """A column chart of `height` lines, from the minimum of the series (an eighth of a cell) to its maximum."""
    cells = resample(values, width)
    present = [cell for cell in cells if cell is not None]
    if not present:
        return []
    low, high = min(present), max(present)
    eighths = [None if cell is None else 1 + _level(cell, low, high, height * 8) for cell in cells]
    return [
        "".join(_GAP if filled is None else _EIGHTHS[max(0, min(8, filled - row * 8))] for filled in eighths)
        for row in reversed(range(height))
    ]


def resample(values: Sequence[float | None], width: int) -> list[float | None]:
    """Means of `width` equal parts of a longer series; a shorter one keeps its length. Only finite values count."""
    finite = [value if value is not None and math.isfinite(value) else None for value in values]
    if len(finite) <= width:
        return finite
    bounds = [len(finite) * part // width for part in range(width + 1)]
    return [_mean(finite[begin:end]) for begin, end in itertools.pairwise(bounds)]


def _mean(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return math.fsum(value / len(present) for value in present) if present else None


def _level(value: float, low: float, high: float, levels: int) -> int:
    if high == low:
        return 0
    if math.isinf(high - low):
        return _level(value / 2, low / 2, high / 2, levels)
    return min(levels - 1, int((value - low) / (high - low) * levels))
