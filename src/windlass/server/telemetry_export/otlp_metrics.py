"""Samples in OpenTelemetry's data model: names, units and attributes by the metric table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

import windlass
from windlass.telemetry.metric_table import OTEL_ATTRIBUTES, MetricType
from windlass.telemetry.samples import HistogramSample, Sample

_NS_PER_MS = 1_000_000
_NAME = "windlass"
_FIXED: Mapping[str, Mapping[str, str]] = {
    "hw.": {"hw.type": "gpu"},
    "system.memory.usage": {"system.memory.state": "used"},
}
"""Attributes that the conventions require, by the begin of a name."""


def instrumentation_scope() -> InstrumentationScope:
    """Windlass and its version."""
    return InstrumentationScope(_NAME, windlass.__version__)


def to_metrics_data(samples: Iterable[Sample | HistogramSample], resource: Resource, started: int) -> MetricsData:
    """The samples as one message. `started`: begin of the counters in ms."""
    by_name: dict[str, list[Sample | HistogramSample]] = {}
    for sample in samples:
        by_name.setdefault(sample.metric.otel_name, []).append(sample)
    metrics = [_metric(name, found, started * _NS_PER_MS) for name, found in by_name.items()]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(instrumentation_scope(), metrics, "")], "")])


def _metric(name: str, samples: Sequence[Sample | HistogramSample], started: int) -> Metric:
    metric = samples[0].metric
    about = (name, metric.help, metric.otel_unit or metric.unit)
    if metric.kind is MetricType.HISTOGRAM:
        points = [_histogram_point(each, started) for each in samples if isinstance(each, HistogramSample)]
        return Metric(*about, Histogram(points, AggregationTemporality.CUMULATIVE))
    numbers = [each for each in samples if isinstance(each, Sample)]
    if metric.kind is MetricType.COUNTER:
        counted = [_number_point(each, started) for each in numbers]
        return Metric(*about, Sum(counted, AggregationTemporality.CUMULATIVE, is_monotonic=True))
    return Metric(*about, Gauge([_number_point(each, 0) for each in numbers]))


def _number_point(sample: Sample, started: int) -> NumberDataPoint:
    value = sample.value * sample.metric.otel_factor
    return NumberDataPoint(_attributes(sample), started, sample.time * _NS_PER_MS, value)


def _histogram_point(sample: HistogramSample, started: int) -> HistogramDataPoint:
    least, most = _extremes(sample)
    return HistogramDataPoint(
        _attributes(sample),
        started,
        sample.time * _NS_PER_MS,
        sum(sample.counts),
        sample.total,
        sample.counts,
        sample.bounds,
        least,
        most,
    )


def _extremes(sample: HistogramSample) -> tuple[float, float]:
    """Bounds of the buckets that have values: the values themselves are not kept."""
    filled = [place for place, count in enumerate(sample.counts) if count]
    if not filled:
        return 0.0, 0.0
    bounds = (0.0, *sample.bounds, sample.bounds[-1])
    return bounds[filled[0]], bounds[filled[-1] + 1]


def _attributes(sample: Sample | HistogramSample) -> dict[str, str]:
    name = sample.metric.otel_name
    fixed = next((found for begin, found in _FIXED.items() if name.startswith(begin)), {})
    return {**fixed, **{OTEL_ATTRIBUTES.get(label, f"windlass.{label}"): text for label, text in sample.labels.items()}}
