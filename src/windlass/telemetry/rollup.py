"""Summaries of frames over a minute or an hour: mean, minimum, maximum and last value of every series. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from windlass.telemetry.frames import MetricFrame, Vector

STATISTICS = ("mean", "min", "max", "last")
"""Order of the statistics within the vectors of a summary."""
_Rows: TypeAlias = list[tuple[int, Vector]]
"""Vectors of one series, each with the number of its span, in order of time."""


def summarize_span(frames: Sequence[MetricFrame], span_ms: int) -> list[MetricFrame]:
    """Summarizes raw frames of one scope, in order of time, by spans of `span_ms`.

    Each summary is at the begin of its span. Its vectors have the four `STATISTICS` one after the other, each as wide
    as the series was at the end of the span; frames of other widths are left out.
    """
    return _merge_spans(frames, span_ms, 1)


def merge_summaries(summaries: Sequence[MetricFrame], span_ms: int) -> list[MetricFrame]:
    """Merges summaries of shorter spans, in order of time, into those of `span_ms`. Means have equal weights."""
    return _merge_spans(summaries, span_ms, len(STATISTICS))


def statistic(vector: Vector, name: str) -> Vector:
    """One of the `STATISTICS` of a summary's vector."""
    width = len(vector) // len(STATISTICS)
    at = STATISTICS.index(name) * width
    return vector[at : at + width]


def _merge_spans(frames: Sequence[MetricFrame], span_ms: int, parts: int) -> list[MetricFrame]:
    """Summaries of all spans. `parts`: values that a vector has for each rank; 1 if raw, else one a statistic."""
    if not frames:
        return []
    # 1. the rows of each series, with the number of their span
    starts, numbers = np.unique([frame.time // span_ms for frame in frames], return_inverse=True)
    series: dict[str, _Rows] = {}
    for number, frame in zip(numbers.tolist(), frames, strict=True):
        for name, vector in frame.values.items():
            series.setdefault(name, []).append((number, vector))
    # 2. each series once over all spans
    merged: list[dict[str, Vector]] = [{} for _ in starts]
    for name, rows in series.items():
        for number, summary in _merge_series(rows, parts):
            merged[number][name] = summary
    # 3. a frame for each span
    times = (starts * span_ms).tolist()
    return [MetricFrame(frames[0].scope, time, values) for time, values in zip(times, merged, strict=True)]


def _merge_series(rows: _Rows, parts: int) -> Iterator[tuple[int, Vector]]:
    """Number of the span and summary, for each span that has the series."""
    for width, kept in _by_last_width(rows).items():
        numbers = [number for number, _ in kept]
        values = np.concatenate([vector for _, vector in kept]).reshape(len(kept), parts, width // parts)
        begins = np.flatnonzero(np.diff(numbers, prepend=-1))
        yield from zip([numbers[at] for at in begins], _reduce(values, begins), strict=True)


def _by_last_width(rows: _Rows) -> dict[int, _Rows]:
    """Rows by their width, without those of other widths than the last row of their span has."""
    widths = {len(vector) for _, vector in rows}
    if len(widths) == 1:
        return {widths.pop(): rows}
    last = {number: len(vector) for number, vector in rows}
    return {width: [row for row in rows if len(row[1]) == width == last[row[0]]] for width in set(last.values())}


def _reduce(values: Vector, begins: NDArray[np.intp]) -> Vector:
    """The statistics of the rows from each of `begins` to the next. A rank without any value has NaN."""
    mean, least, most, last = (
        values[:, 0],
        values[:, 1 % values.shape[1]],
        values[:, 2 % values.shape[1]],
        values[:, -1],
    )
    known = ~np.isnan(mean)
    total = np.add.reduceat(np.where(known, mean, 0), begins, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        means = total / np.add.reduceat(known, begins, dtype=np.float64)
    ends = np.append(begins[1:], len(values)) - 1
    found = (means, np.fmin.reduceat(least, begins), np.fmax.reduceat(most, begins), last[ends])
    return np.concatenate(found, axis=1, dtype=np.float32, casting="same_kind")
