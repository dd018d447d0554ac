"""History of one scope over any span: the finest stored frames for each part of it, reduced to a number of points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from windlass.telemetry.frames import SPAN_MS, MetricFrame, Tier
from windlass.telemetry.rollup import statistic, summarize_span
from windlass.telemetry.store import TelemetryStore

MAX_POINTS = 1_000
"""Default number of frames of an answer."""


def read_history(
    store: TelemetryStore, scope: str, since: int, until: int, *, which: str = "mean", points: int = MAX_POINTS
) -> list[MetricFrame]:
    """Frames of a scope with `since` <= time < `until`: raw where they are kept, else minutes, else hours.

    With more than `points` frames, equal spans are summarized by `which` of the `STATISTICS`. Raises StoreError.
    """
    # 1. raw frames, before their begin minutes, before theirs hours
    raw = store.frames(scope, Tier.RAW, since, until)
    minutes = store.frames(scope, Tier.MINUTE, since, _begin(raw, until, Tier.MINUTE))
    hours = store.frames(scope, Tier.HOUR, since, _begin(minutes or raw, until, Tier.HOUR))
    older = [_reduce(frame, which) for frame in (*hours, *minutes)]
    # 2. not more than `points`
    return reduce_points([*older, *raw], since, until, which=which, points=points)


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


def _begin(frames: Sequence[MetricFrame], until: int, tier: Tier) -> int:
    """End of the part that coarser frames must cover: the begin of the span that the first finer frame lies in."""
    return frames[0].time // SPAN_MS[tier] * SPAN_MS[tier] if frames else until


def _reduce(frame: MetricFrame, which: str) -> MetricFrame:
    return MetricFrame(frame.scope, frame.time, {name: statistic(v, which) for name, v in frame.values.items()})


def series_of(frames: Iterable[MetricFrame]) -> dict[str, list[tuple[int, list[float]]]]:
    """Time (ms) and values of each series, by name."""
    found: dict[str, list[tuple[int, list[float]]]] = {}
    for frame in frames:
        for name, vector in frame.values.items():
            found.setdefault(name, []).append((frame.time, vector.tolist()))
    return {name: found[name] for name in sorted(found)}
