"""Samples: the values of frames one by one, with metric, labels and time, for exporters. Pure."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from windlass.telemetry.frames import MetricFrame
from windlass.telemetry.metric_table import LEVEL_LABELS, METRICS, Level, Metric

MAX_RANK_SAMPLES = 100_000
"""Maximum number of samples of ranks in one export; a series beyond it is left out."""
_SCOPES = {"queue": Level.QUEUE, "job": Level.JOB, "node": Level.NODE}
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One value at `time` (ms since the epoch)."""

    metric: Metric
    labels: Mapping[str, str]
    value: float
    time: int


@dataclass(frozen=True, slots=True)
class HistogramSample:
    """The state of a histogram at `time`: `counts` below each of the `bounds`, not added up, then those above all."""

    metric: Metric
    labels: Mapping[str, str]
    bounds: Sequence[float]
    counts: Sequence[int]
    total: float
    time: int


def frame_samples(frames: Iterable[MetricFrame], *, ranks: bool = False) -> Iterator[Sample]:
    """Every value of the frames that is a number, of metrics of the table. `ranks`: also those of each rank."""
    room = MAX_RANK_SAMPLES
    for frame in frames:
        owner = scope_labels(frame.scope)
        for series, vector in frame.values.items():
            name, _, rest = series.partition("{")
            metric = METRICS.get(name)
            if metric is None or (metric.level is Level.RANK and not ranks):
                continue
            values = vector.tolist()
            if metric.level is Level.RANK:
                if len(values) > room:
                    continue
                room -= len(values)
            labels = {**owner, **_read_labels(rest)}
            yield from _samples(metric, labels, values, frame.time)


def scope_labels(scope: str) -> dict[str, str]:
    """The label that names the object of a scope; empty for the cluster."""
    level, _, name = scope.partition("/")
    return {LEVEL_LABELS[_SCOPES[level]][0]: name} if level in _SCOPES else {}


def _samples(metric: Metric, labels: Mapping[str, str], values: Sequence[float], time: int) -> Iterator[Sample]:
    if not metric.has_vector:
        values = values[:1]
    for index, value in enumerate(values):
        if math.isfinite(value):
            own = {**labels, LEVEL_LABELS[metric.level][-1]: str(index)} if metric.has_vector else labels
            yield Sample(metric, own, value, time)


@functools.lru_cache(maxsize=4_096)
def _read_labels(text: str) -> Mapping[str, str]:
    """Labels in the notation of Prometheus, as `series_name` writes them."""
    return {name: re.sub(r"\\[\\\"n]", lambda found: _ESCAPED[found[0]], value) for name, value in _LABEL.findall(text)}
