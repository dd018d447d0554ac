"""Tables, a plot in text, CSV and SVG of a network test. Pure."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from windlass.core.model.resources import format_bytes
from windlass.diagnose.network.measurements import CollectiveMeasurement, Sweep
from windlass.diagnose.network.verdict import NetworkVerdict

_BAR = 40
_MAX_PAIRS = 40
"""Pairs in the table; of more, those that are slow or late come first."""
_WIDTH, _HEIGHT, _MARGIN = 640, 320, 56
_COLOURS = {"all-reduce": "#08589e", "all-gather": "#d95f0e"}


def report_lines(sweep: Sweep, verdict: NetworkVerdict) -> Iterator[str]:
    """Yields the report as lines of text."""
    if sweep.pairs:
        yield from _pair_table(sweep, verdict)
    if sweep.collectives:
        yield from _collective_table(sweep)
        yield from _plot(sweep.collectives)
    for finding in verdict.findings:
        yield f"✗ {finding.text}"
        yield f"  fix: {finding.fix}"
    if verdict.is_ok:
        compared = ("one node has no pair", "one pair: there is no other to compare it with", "no pair is an outlier")
        measured = f"{_count(len(sweep.nodes), 'node')}, {_count(sweep.ranks, 'rank')}, {sweep.backend}"
        yield f"✓ {measured}: every result is right; {compared[min(len(sweep.pairs), 2)]}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _pair_table(sweep: Sweep, verdict: NetworkVerdict) -> Iterator[str]:
    outliers = verdict.slow_pairs | verdict.late_pairs
    pairs = sorted(sweep.pairs, key=lambda each: (each.a, each.b) not in outliers)[:_MAX_PAIRS]
    names = [f"{sweep.name(each.a)} – {sweep.name(each.b)}" for each in pairs]
    width = max(map(len, names))
    yield f"{'PAIR':<{width}}  {'LATENCY':>11}  {'BANDWIDTH':>11}"
    for name, each in zip(names, pairs, strict=True):
        marks = [
            word
            for word, keys in (("slow", verdict.slow_pairs), ("late", verdict.late_pairs))
            if (each.a, each.b) in keys
        ]
        yield (
            f"{name:<{width}}  {each.latency_s * 1e6:>8,.1f} µs  {format_rate(each.bandwidth):>11}  {', '.join(marks)}"
        ).rstrip()
    if len(sweep.pairs) > _MAX_PAIRS:
        yield f"and {len(sweep.pairs) - _MAX_PAIRS} more pairs: -o csv"
    yield ""


def _collective_table(sweep: Sweep) -> Iterator[str]:
    yield f"{'COLLECTIVE':<10}  {'SIZE':>8}  {'TIME':>12}  {'ALGBW':>11}  {'BUSBW':>11}  WRONG"
    for each in sweep.collectives:
        yield (
            f"{each.operation:<10}  {format_bytes(each.bytes):>8}  {each.seconds * 1e6:>9,.1f} µs"
            f"  {format_rate(each.algorithm_bandwidth):>11}  {format_rate(each.bus_bandwidth):>11}  {each.wrong}"
        )
    yield ""


def _plot(found: Sequence[CollectiveMeasurement]) -> Iterator[str]:
    """Yields a bar of the bus bandwidth for each size."""
    top = max(each.bus_bandwidth for each in found) or 1.0
    for operation in dict.fromkeys(each.operation for each in found):
        yield f"bus bandwidth of {operation}"
        for each in found:
            if each.operation == operation:
                bar = "█" * max(1, round(each.bus_bandwidth / top * _BAR))
                yield f"{format_bytes(each.bytes):>8}  {bar} {format_rate(each.bus_bandwidth)}"
        yield ""


def format_rate(rate: float) -> str:
    """Formats bytes a second with a decimal suffix."""
    return f"{rate / 1e9:.3g} GB/s" if rate >= 1e8 else f"{rate / 1e6:.3g} MB/s"


def plain_sweep(sweep: Sweep, verdict: NetworkVerdict) -> dict[str, Any]:
    """Returns the test as plain data, for JSON."""
    return {
        "ok": verdict.is_ok,
        "nodes": [sweep.name(number) for number in range(len(sweep.nodes))],
        "ranks": sweep.ranks,
        "backend": sweep.backend,
        "reference": {"bandwidth": verdict.bandwidth, "latency_s": verdict.latency_s},
        "pairs": [
            {
                **asdict(each),
                "a": sweep.name(each.a),
                "b": sweep.name(each.b),
                "bandwidth": each.bandwidth,
                "slow": (each.a, each.b) in verdict.slow_pairs,
                "late": (each.a, each.b) in verdict.late_pairs,
            }
            for each in sweep.pairs
        ],
        "collectives": [
            {**asdict(each), "algorithm_bandwidth": each.algorithm_bandwidth, "bus_bandwidth": each.bus_bandwidth}
            for each in sweep.collectives
        ],
        "blocked": [asdict(each) for each in sweep.blocked],
        "findings": [asdict(each) for each in verdict.findings],
    }


def csv_text(sweep: Sweep, verdict: NetworkVerdict) -> str:
    """Returns every measurement as a row of CSV; bandwidths in bytes a second."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["kind", "a", "b", "bytes", "seconds", "latency_s", "bandwidth", "bus_bandwidth", "wrong", "outlier"]
    )
    for pair in sweep.pairs:
        is_outlier = (pair.a, pair.b) in verdict.slow_pairs | verdict.late_pairs
        names = sweep.name(pair.a), sweep.name(pair.b)
        figures = pair.bytes, pair.seconds, pair.latency_s, pair.bandwidth
        writer.writerow(["pair", *map(_cell, names), *figures, "", pair.wrong, is_outlier])
    for each in sweep.collectives:
        rates = each.algorithm_bandwidth, each.bus_bandwidth
        writer.writerow([each.operation, "", "", each.bytes, each.seconds, "", *rates, each.wrong, False])
    return out.getvalue()


def _cell(name: str) -> str:
    """Returns a name that no spreadsheet takes for a formula."""
    return f"'{name}" if name[:1] in "=+-@" else name


def svg(sweep: Sweep) -> str:
    """Returns bus bandwidth over size, both logarithmic, as SVG."""
    found = sweep.collectives
    body = "".join(
        _curve(found, operation, row) for row, operation in enumerate(dict.fromkeys(e.operation for e in found))
    )
    title = f"{len(sweep.nodes)} nodes, {sweep.ranks} ranks, {sweep.backend}: bus bandwidth"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="{_MARGIN}" y="20" font-size="14" font-weight="bold">{escape(title)}</text>{body}</svg>\n'
    )


def _curve(found: Sequence[CollectiveMeasurement], operation: str, row: int) -> str:
    sizes, rates = (
        [math.log2(each.bytes) for each in found],
        [math.log10(max(each.bus_bandwidth, 1.0)) for each in found],
    )
    own = [at for at, each in enumerate(found) if each.operation == operation]
    across, up = max(sizes) - min(sizes) or 1.0, max(rates) - min(rates) or 1.0
    points, marks, colour = [], [], _COLOURS[operation]
    for at in own:
        x = _MARGIN + (sizes[at] - min(sizes)) / across * (_WIDTH - 2 * _MARGIN)
        y = _HEIGHT - _MARGIN - (rates[at] - min(rates)) / up * (_HEIGHT - 2 * _MARGIN)
        points.append(f"{x:.1f},{y:.1f}")
        label = f"{format_bytes(found[at].bytes)}: {format_rate(found[at].bus_bandwidth)}"
        marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"><title>{label}</title></circle>')
        if row == 0:
            marks.append(
                f'<text x="{x:.1f}" y="{_HEIGHT - 20}" text-anchor="middle">{format_bytes(found[at].bytes)}</text>'
            )
    legend = f'<text x="{_WIDTH - _MARGIN}" y="{36 + 16 * row}" text-anchor="end" fill="{colour}">{operation}</text>'
    line = f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>'
    return f"{line}{''.join(marks)}{legend}"
