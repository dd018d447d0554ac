"""Formats numbers for people. The page's script formats the same numbers equally (assets/format.js)."""

from __future__ import annotations

import math

from windlass.backends.simulator.report.figures import Unit

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def format_duration(seconds: float) -> str:
    """Formats a duration: "40 ms", "1.25 h", "9.9 d"."""
    name, length = _unit_of(seconds)
    return f"{round_significant(seconds / length, 3)} {name}"


def _unit_of(seconds: float) -> tuple[str, float]:
    """Returns the largest unit that gives at least 1 after rounding to the digits shown."""
    size = abs(seconds)
    if size < 0.9995:
        return ("s", 1) if size == 0 else ("ms", 0.001)
    return next((name, length) for name, length in _UNITS if size >= length * 0.9995)


def format_mean(mean: float, sd: float, unit: Unit) -> str:
    """Formats a mean and its standard deviation in one unit: "12.3 ± 0.4 min"; the mean alone if the deviation is 0."""
    spread = format_deviation(mean, sd, unit)
    if not spread:
        return format_figure(mean, unit)
    number, space, name = format_figure(mean, unit).partition(" ")
    return f"{number} ± {spread}{space}{name}"


def format_deviation(mean: float, sd: float, unit: Unit) -> str:
    """Formats a standard deviation in its mean's unit, with no more decimal places than the mean; "" if it is 0."""
    if not sd:
        return ""
    scale = _unit_of(mean)[1] if unit == "s" else 0.01 if unit == "share" else 1
    places = 1 if unit == "share" else max(0, 2 - math.floor(math.log10(abs(mean) / scale))) if mean else 2
    shown = f"{sd / scale:,.{places}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def round_significant(value: float, digits: int) -> str:
    """Rounds to significant digits, without trailing zeros, and without dropping digits before the point."""
    if abs(value) >= 10**digits:
        return f"{value:,.0f}"
    shown = f"{float(f'{value:.{digits}g}'):.6f}"
    return shown.rstrip("0").rstrip(".")


def format_figure(value: float, unit: Unit) -> str:
    """Formats one figure."""
    match unit:
        case "s":
            return format_duration(value)
        case "share":
            return f"{value * 100:.1f} %"
        case "ratio" | "count":
            return round_significant(value, 3)


def join_names(names: list[str]) -> str:
    """Joins names: "a", "a and b", "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def format_count(count: int, one: str, many: str = "") -> str:
    """Formats a count: "1 job", "82,247 jobs"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
