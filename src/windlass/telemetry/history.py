"""History of one scope over any span: the finest stored frames for each part of it, reduced to a number of points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from windlass.telemetry.frames import SPAN_MS, MetricFrame, Tier, Vector
from windlass.telemetry.rollup import statistic, summarize_span
from windlass.telemetry.store import TelemetryStore

MAX_POINTS = 1_000
"""Default number of frames of an answer."""


def read_history(
    store: TelemetryStore, scope: str, since: int, until: int, *, which: str = "mean", points: int = MAX_POINTS
) -> list[MetricFrame]:
    """Frames of a scope with `since` <= time < `until`: raw where they are kept, else minutes, else hours.

    With more than `points` frames, equal spans are summarized by `which` of the `STATISTICS`. Frames that are finer
    than these spans are not read. Raises StoreError.
    """
    # 1. hours, then minutes, then raw frames in place of what they are finer than
    found: list[tuple[int, MetricFrame]] = []
    for tier in reversed(Tier):
        found = _refine(found, store.frames(scope, tier, _start(found, since, points), until), tier, which)
    # 2. not more than `points`
    return reduce_points([frame for _, frame in found], since, until, which=which, points=points)


def _start(found: Sequence[tuple[int, MetricFrame]], since: int, points: int) -> int:
    """Begin of the part to read at the next finer resolution: the end of what is enough for all points."""
    return since if len(found) < points else found[-1][0]


def _refine(
    coarse: Sequence[tuple[int, MetricFrame]], finer: Sequence[MetricFrame], tier: Tier, which: str
) -> list[tuple[int, MetricFrame]]:
    """Frames with their ends: the coarse ones that end before the first finer one, and the finer ones."""
    kept = [each for each in coarse if not finer or each[0] <= finer[0].time]
    if tier is Tier.RAW:
        return kept + [(frame.time, frame) for frame in finer]
    return kept + [(frame.time + SPAN_MS[tier], _reduce(frame, which)) for frame in finer]


def reduce_points(
    frames: Sequence[MetricFrame], since: int, until: int, *, which: str, points: int
) -> list[MetricFrame]:
    """At most `points` frames, by summarizing equal spans. Pure."""
    if len(frames) <= points:
        return list(frames)
    first = max(since, frames[0].time)
    span = max(1, -(-(min(until, frames[-1].time + 1) - first) // points))
    shifted = [MetricFrame(frame.scope, frame.time - first, frame.values) for frame in frames]
    merged = summarize_span(shifted, span)
    return [_reduce(MetricFrame(each.scope, each.time + first, each.values), which) for each in merged]


def _reduce(frame: MetricFrame, which: str) -> MetricFrame:
    return MetricFrame(frame.scope, frame.time, {name: statistic(v, which) for name, v in frame.values.items()})


def series_of(frames: Iterable[MetricFrame]) -> dict[str, list[tuple[int, Vector]]]:
    """Time (ms) and values of each series, by name."""
    found: dict[str, list[tuple[int, Vector]]] = {}
    for frame in frames:
        for name, vector in frame.values.items():
            found.setdefault(name, []).append((frame.time, vector))
    return {name: found[name] for name in sorted(found)}
