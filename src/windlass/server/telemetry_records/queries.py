"""Queries of stored telemetry, with and without a controller."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from windlass.server.errors import ApiError, ErrorCode
from windlass.telemetry.frames import MetricFrame, Tier, Vector, job_scope, node_scope
from windlass.telemetry.history import MAX_POINTS, read_history, reduce_points, series_of
from windlass.telemetry.metric_table import metric_of
from windlass.telemetry.rollup import STATISTICS
from windlass.telemetry.store import StoreError, TelemetryStore

Json = dict[str, Any]
_END_OF_TIME = 2**53
_MAX_DIGITS = 16
_MAX_NAMED = 8
"""Names of nodes in the refusal of another name."""
_PRESENT_MS = 60_000
"""Age up to which a frame is of the present; with many jobs, each has a frame every few intervals."""


class HistorySpan(NamedTuple):
    """Part of a history: from `since` to `until` (ms), in at most `points` frames of one of the `STATISTICS`.

    `values`: maximum number of values of all series together; a job of many ranks has fewer points then.
    """

    since: int = 0
    until: int = _END_OF_TIME
    points: int = MAX_POINTS
    statistic: str = STATISTICS[0]
    values: int = _END_OF_TIME


def read_span(parameters: Mapping[str, str]) -> HistorySpan:
    """The span of a request. Raises ApiError."""
    which = parameters.get("statistic", STATISTICS[0])
    if which not in STATISTICS:
        raise ApiError(ErrorCode.BAD_REQUEST, f"no statistic {which[:40]!r}", f"use one of {', '.join(STATISTICS)}")
    defaults = HistorySpan()
    return HistorySpan(
        _number(parameters, "since", defaults.since),
        _number(parameters, "until", defaults.until),
        max(1, min(_number(parameters, "points", defaults.points), 10 * MAX_POINTS)),
        which,
    )


def _number(parameters: Mapping[str, str], name: str, default: int) -> int:
    text = parameters.get(name, str(default))
    if not text.isdecimal() or len(text) > _MAX_DIGITS:
        raise ApiError(ErrorCode.BAD_REQUEST, f"{name} is a number, not {text[:40]!r}")
    return int(text)


def job_metrics(path: Path, job_id: str, span: HistorySpan) -> Json:
    """Stored series of a job, as `stored_series` returns them. Raises ApiError."""
    return {"id": job_id, "statistic": span.statistic, "series": stored_series(path, job_scope(job_id), span)}


def node_metrics(path: Path, node: str, span: HistorySpan) -> Json:
    """Stored series of a node, as `stored_series` returns them. Raises ApiError, also for a node without any."""
    found = stored_series(path, node_scope(node), span)
    if not found and node not in (known := measured_nodes(path)):
        listed = ", ".join(known[:_MAX_NAMED]) + (", …" if len(known) > _MAX_NAMED else "")
        fix = f"name one of {listed}" if known else "nodes are recorded while a controller runs"
        raise ApiError(ErrorCode.BAD_REQUEST, f"nothing is recorded of a node {node[:200]!r}", fix)
    return {"node": node, "statistic": span.statistic, "series": found}


def measured_nodes(path: Path) -> list[str]:
    """Names of the nodes that have stored series. Raises ApiError."""
    with _reading(path) as store:
        return [scope.removeprefix(node_scope("")) for scope in store.scopes(node_scope(""))]


def stored_series(path: Path, scope: str, span: HistorySpan) -> list[Json]:
    """Series of a scope: for each its unit, its times (ms) and its values, a list for each time.

    A list has one value, or one for each rank or GPU; None: not reported. Raises ApiError.
    """
    with _reading(path) as store:
        frames = read_history(store, scope, span.since, span.until, which=span.statistic, points=span.points)
    width = max((sum(map(len, frame.values.values())) for frame in frames), default=1)
    points = max(1, min(span.points, span.values // max(1, width)))
    frames = reduce_points(frames, span.since, span.until, which=span.statistic, points=points)
    return [_series_json(name, points) for name, points in series_of(frames).items()]


def newest_frames(path: Path, now: int) -> list[MetricFrame]:
    """The newest stored frame of each scope that has one of the last minute. Raises ApiError."""
    with _reading(path) as store:
        found = [store.frames(scope, Tier.RAW, now - _PRESENT_MS, now + 1) for scope in store.scopes()]
    return [frames[-1] for frames in found if frames]


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[TelemetryStore]:
    try:
        with contextlib.closing(TelemetryStore.read(path)) as store:
            yield store
    except StoreError as error:
        raise ApiError(ErrorCode.WRONG_STATE, str(error), "telemetry is recorded while a controller runs") from None


def stored_stamp(path: Path, scope: str) -> str:
    """The same text until the stored telemetry of a scope changes. Raises ApiError."""
    with _reading(path) as store:
        return store.stamp(scope)


def _series_json(name: str, points: list[tuple[int, Vector]]) -> Json:
    metric = metric_of(name)
    values = [row.tolist() for _, row in points]
    if not np.isfinite(np.concatenate([row for _, row in points])).all():
        values = [[value if math.isfinite(value) else None for value in row] for row in values]
    described = {"series": name, "unit": metric.unit, "level": metric.level.value, "help": metric.help}
    return {**described, "times": [time for time, _ in points], "values": values}
