"""Draws speed-up and the phases of a step as text bars and as a self-contained SVG. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

Row = Mapping[str, Any]
COLOURS = {
    "data": "#8c6bb1",
    "forward": "#2b8cbe",
    "backward": "#08589e",
    "pipeline": "#2b8cbe",
    "agree": "#d95f0e",
    "optimizer": "#41ab5d",
    "other": "#bdbdbd",
}
SHORTEST_PHASE_MS = 0.05
"""Phases that are shorter in every run are not shown."""
_LETTERS = {"other": "·"}
_WIDTH = 40
_BOX = 300
"""Side of one chart in SVG units."""


def text_bars(rows: Sequence[Row]) -> str:
    """Returns bars of the speed-up against the ideal, and of each step by the first letters of its phases."""
    ideal = [row["ranks"] / rows[0]["ranks"] for row in rows]
    top = max(*ideal, *(row["speedup"] for row in rows))
    lines = ["speed-up (░ ideal)"]
    for row, best in zip(rows, ideal, strict=True):
        full, outer = round(row["speedup"] / top * _WIDTH), round(best / top * _WIDTH)
        lines.append(f"{row['ranks']:>5}  {'█' * full}{'░' * max(0, outer - full)}  {row['speedup']:.2f} of {best:g}")
    if not rows[0]["phases"]:
        return "\n".join(lines)
    longest = max(row["step_ms"] for row in rows)
    names = dict.fromkeys(name for row in rows for name, spent in row["phases"].items() if spent >= SHORTEST_PHASE_MS)
    lines.append(f"a step ({', '.join(f'{_letter(name)} {name}' for name in names)})")
    for row in rows:
        parts = "".join(_letter(name) * count for name, count in _cells(row["phases"], longest))
        lines.append(f"{row['ranks']:>5}  {parts}  {row['step_ms']:.4g} ms")
    return "\n".join(lines)


def _letter(name: str) -> str:
    return _LETTERS.get(name, name[:1])


def _cells(phases: Mapping[str, float], longest: float) -> Iterator[tuple[str, int]]:
    """Yields the number of characters of each phase; ends are rounded, so that the total length is exact."""
    elapsed, drawn = 0.0, 0
    for name, spent in phases.items():
        elapsed += spent
        end = round(elapsed / longest * _WIDTH)
        yield name, end - drawn
        drawn = end


def svg(rows: Sequence[Row], title: str) -> str:
    """Returns an SVG with the speed-up and, if step times are known, the phases of a step beside it."""
    parts = [_speedup_chart(rows)]
    if rows[0]["phases"]:
        parts.append(f'<g transform="translate({_BOX + 120} 0)">{_step_chart(rows)}</g>')
    width = 120 + (_BOX + 120) * len(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_BOX + 120}" width="{width}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="20" y="24" font-size="14" font-weight="bold">{escape(title)}</text>'
        f'<g transform="translate(60 60)">{"".join(parts)}</g></svg>\n'
    )


def html_page(rows: Sequence[Row], title: str) -> str:
    """Returns the SVG in an HTML page."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<body>{svg(rows, title)}</body></html>\n"
    )


def _speedup_chart(rows: Sequence[Row]) -> str:
    first = rows[0]["ranks"]
    most = rows[-1]["ranks"] / first
    top = max(most, *(row["speedup"] for row in rows))

    def at(ranks: float, value: float) -> str:
        return f"{ranks / first / most * _BOX:.1f},{_BOX - value / top * _BOX:.1f}"

    line = " ".join(at(row["ranks"], row["speedup"]) for row in rows)
    marks = "".join(_mark(at(row["ranks"], row["speedup"]), f"{row['speedup']:.2f}") for row in rows)
    ticks = "".join(_text(row["ranks"] / first / most * _BOX, _BOX + 18, str(row["ranks"])) for row in rows)
    ideal = f"{at(first, 1)} {at(rows[-1]['ranks'], most)}"
    return (
        f"{_axes('speed-up', 'ranks')}{ticks}"
        f'<polyline points="{ideal}" fill="none" stroke="#999" stroke-dasharray="4 4"/>'
        f'<polyline points="{line}" fill="none" stroke="#08589e" stroke-width="2"/>{marks}'
    )


def _mark(point: str, label: str) -> str:
    x, _, y = point.partition(",")
    return f'<circle cx="{x}" cy="{y}" r="4" fill="#08589e"/>{_text(float(x), float(y) - 8, label)}'


def _step_chart(rows: Sequence[Row]) -> str:
    longest = max(row["step_ms"] for row in rows) or 1.0
    pitch = _BOX / len(rows)
    drawn = [_axes("ms of a step", "ranks")]
    for place, row in enumerate(rows):
        x, y = place * pitch + pitch * 0.2, float(_BOX)
        for name, spent in row["phases"].items():
            height = spent / longest * _BOX
            y -= height
            drawn.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{pitch * 0.6:.1f}" height="{height:.1f}" '
                f'fill="{COLOURS.get(name, "#636363")}"><title>{escape(name)}: {spent:.4g} ms</title></rect>'
            )
        drawn.append(_text(x + pitch * 0.3, _BOX + 18, str(row["ranks"])))
        drawn.append(_text(x + pitch * 0.3, y - 6, f"{row['step_ms']:.4g}"))
    names = dict.fromkeys(name for row in rows for name, spent in row["phases"].items() if spent >= SHORTEST_PHASE_MS)
    for place, name in enumerate(names):
        drawn.append(
            f'<rect x="{_BOX + 8}" y="{place * 18}" width="12" height="12" fill="{COLOURS.get(name, "#636363")}"/>'
            f'<text x="{_BOX + 24}" y="{place * 18 + 10}">{escape(name)}</text>'
        )
    return "".join(drawn)


def _axes(upwards: str, along: str) -> str:
    return (
        f'<path d="M0 0V{_BOX}H{_BOX}" fill="none" stroke="#333"/>'
        f'<text x="-6" y="-12">{upwards}</text><text x="{_BOX}" y="{_BOX + 36}" text-anchor="end">{along}</text>'
    )


def _text(x: float, y: float, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(words)}</text>'
