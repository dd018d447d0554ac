"""Frames in the text format of Prometheus. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from windlass.telemetry.frames import MetricFrame
from windlass.telemetry.metric_table import LEVEL_LABELS, METRICS, Level, Metric, escape_label

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_RANK_SERIES = 100_000
"""Maximum number of series of ranks in one answer; `windlass_rank_series_left_out` counts the others."""
_LEFT_OUT = "windlass_rank_series_left_out"
_LEVELS = {"queue": Level.QUEUE, "job": Level.JOB, "node": Level.NODE}
"""Level by the first part of a scope's name."""


def render_frames(frames: Iterable[MetricFrame], *, ranks: bool = False, limit: int = MAX_RANK_SERIES) -> bytes:
    """Every series of the frames, one frame for each scope. `ranks`: also those of ranks, at most `limit` of them.

    Left out are values that are no numbers, and metrics that are not in the table: of frames of another version.
    """
    families: dict[str, list[str]] = {}
    left_out, room = 0, limit
    for frame in frames:
        owner = _owner(frame.scope)
        for series, vector in frame.values.items():
            name, _, rest = series.partition("{")
            if name not in METRICS:
                continue
            metric = METRICS[name]
            if not metric.has_vector:
                labels = f"{owner},{rest[:-1]}" if owner and rest else owner or rest[:-1]
                families.setdefault(name, []).extend(_sample(name, labels, float(vector[0])))
                continue
            if metric.level is Level.RANK and not ranks:
                continue
            lines = list(_vector_samples(metric, owner, vector.tolist()))
            if metric.level is Level.RANK:
                if len(lines) > room:
                    left_out += len(lines)
                    continue
                room -= len(lines)
            families.setdefault(name, []).extend(lines)
    if ranks:
        families[_LEFT_OUT] = list(_sample(_LEFT_OUT, "", left_out))
    return "".join(_family(name, lines) for name, lines in families.items()).encode("utf-8", "replace")


def _owner(scope: str) -> str:
    """The label that names the object of a scope; empty for the cluster."""
    level, _, name = scope.partition("/")
    return f'{LEVEL_LABELS[_LEVELS[level]][0]}="{escape_label(name)}"' if level in _LEVELS else ""


def _sample(name: str, labels: str, value: float) -> Iterator[str]:
    if math.isfinite(value):
        yield f"{name}{{{labels}}} {value:.9g}\n" if labels else f"{name} {value:.9g}\n"


def _vector_samples(metric: Metric, owner: str, values: list[float]) -> Iterator[str]:
    label = LEVEL_LABELS[metric.level][-1]
    for index, value in enumerate(values):
        if math.isfinite(value):
            yield f'{metric.name}{{{owner},{label}="{index}"}} {value:.9g}\n'


def _family(name: str, lines: list[str]) -> str:
    metric = METRICS[name]
    return f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind.value}\n{''.join(lines)}"
