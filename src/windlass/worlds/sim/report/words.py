"""Numbers as people read them. The page's script says the same of the same numbers (assets/format.js)."""

from __future__ import annotations

from windlass.worlds.sim.report.figures import Unit

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def span(seconds: float) -> str:
    """ "40 ms", "1.25 h", "9.9 d"."""
    size = abs(seconds)
    if size < 0.9995:
        return "0 s" if size == 0 else f"{trimmed(seconds * 1000, 3)} ms"
    name, length = next((name, length) for name, length in _UNITS if size >= length * 0.9995)
    return f"{trimmed(seconds / length, 3)} {name}"


def trimmed(value: float, digits: int) -> str:
    """So many significant digits, no zeros behind the point, and no digit before it dropped."""
    if abs(value) >= 10**digits:
        return f"{value:,.0f}"
    shown = f"{float(f'{value:.{digits}g}'):.{digits}f}"
    return shown.rstrip("0").rstrip(".") if abs(value) >= 10**-digits else f"{value:.{digits}g}"


def told(value: float, unit: Unit) -> str:
    """One figure."""
    match unit:
        case "s":
            return span(value)
        case "share":
            return f"{value * 100:.1f} %"
        case "ratio":
            return trimmed(value, 3)
        case "count":
            return trimmed(value, 4)


def listed(names: list[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def several(count: int, one: str, many: str = "") -> str:
    """ "1 job", "82,247 jobs"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
