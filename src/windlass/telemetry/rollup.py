"""Summaries of frames over a minute or an hour: mean, minimum, maximum and last value of every series. Pure."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from windlass.telemetry.frames import MetricFrame, Vector

STATISTICS = ("mean", "min", "max", "last")
"""Order of the statistics within the vectors of a summary."""


def summarize_span(frames: Sequence[MetricFrame], span_ms: int) -> list[MetricFrame]:
    """Summarizes raw frames of one scope, in order of time, by spans of `span_ms`.

    Each summary is at the begin of its span. Its vectors have the four `STATISTICS` one after the other, each as wide
    as the series was at the end of the span; frames of other widths are left out.
    """
    return [
        _merge(start, [_as_summary(frame) for frame in group])
        for start, group in groupby(frames, lambda frame: frame.time // span_ms * span_ms)
    ]


def merge_summaries(summaries: Sequence[MetricFrame], span_ms: int) -> list[MetricFrame]:
    """Merges summaries of shorter spans, in order of time, into those of `span_ms`. Means have equal weights."""
    return [
        _merge(start, list(group)) for start, group in groupby(summaries, lambda one: one.time // span_ms * span_ms)
    ]


def statistic(vector: Vector, name: str) -> Vector:
    """One of the `STATISTICS` of a summary's vector."""
    width = len(vector) // len(STATISTICS)
    at = STATISTICS.index(name) * width
    return vector[at : at + width]


def _as_summary(frame: MetricFrame) -> MetricFrame:
    return MetricFrame(
        frame.scope,
        frame.time,
        {name: np.concatenate((vector,) * len(STATISTICS)) for name, vector in frame.values.items()},
    )


def _merge(start: int, summaries: Sequence[MetricFrame]) -> MetricFrame:
    names = {name for summary in summaries for name in summary.values}
    merged = {name: _merge_series([s.values[name] for s in summaries if name in s.values]) for name in names}
    return MetricFrame(summaries[0].scope, start, merged)


def _merge_series(vectors: Sequence[Vector]) -> Vector:
    width = len(vectors[-1])
    rows = np.stack([vector for vector in vectors if len(vector) == width]).reshape(
        -1, len(STATISTICS), width // len(STATISTICS)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a rank without any value: NaN is the answer
        parts = [
            np.nanmean(rows[:, 0], axis=0),
            np.nanmin(rows[:, 1], axis=0),
            np.nanmax(rows[:, 2], axis=0),
            rows[-1, 3],
        ]
    return np.concatenate(parts).astype(np.float32)
