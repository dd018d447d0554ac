"""Samples in OpenTelemetry's data model."""

from typing import Any

import numpy as np
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.resources import Resource

from windlass.server.telemetry_export.otlp_metrics import to_metrics_data
from windlass.telemetry.frames import MetricFrame, job_scope, node_scope, queue_scope, scalar
from windlass.telemetry.metric_table import METRICS, series_name
from windlass.telemetry.samples import HistogramSample, Sample, frame_samples

NOW = 1_700_000_000_000
BEGUN = NOW - 60_000


def encoded(*samples: Sample | HistogramSample) -> dict[str, Any]:
    """Metrics of the message by name."""
    message = encode_metrics(to_metrics_data(samples, Resource({}), BEGUN))
    (metrics,) = (scope.metrics for each in message.resource_metrics for scope in each.scope_metrics)
    return {metric.name: metric for metric in metrics}


def attributes(point: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in point.attributes}


def test_a_gauge_has_the_attributes_of_its_labels():
    held = series_name("windlass_queue_held", resource="gpu")
    metric = encoded(*frame_samples([MetricFrame(queue_scope("research"), NOW, {held: scalar(64)})]))[
        "windlass.queue.held"
    ]
    (point,) = metric.gauge.data_points
    assert (point.as_double, point.time_unix_nano) == (64, NOW * 1_000_000)
    assert attributes(point) == {"windlass.queue.name": "research", "windlass.resource": "gpu"}


def test_values_of_gpus_are_in_the_units_of_the_conventions():
    values = {"DCGM_FI_DEV_GPU_UTIL": np.array([90], np.float32), "DCGM_FI_DEV_FB_USED": np.array([2], np.float32)}
    frames = [
        MetricFrame(job_scope("a"), NOW, values),
        MetricFrame(node_scope("n1"), NOW, {"windlass_gpu_utilization_ratio": np.array([0.5], np.float32)}),
    ]
    found = encoded(*frame_samples(frames, ranks=True))
    use, memory = found["hw.gpu.utilization"], found["hw.gpu.memory.usage"]
    assert (use.unit, memory.unit) == ("1", "By")
    assert sorted(round(point.as_double, 6) for point in use.gauge.data_points) == [0.5, 0.9]
    assert memory.gauge.data_points[0].as_double == 2 << 20
    assert attributes(use.gauge.data_points[1]) == {"hw.type": "gpu", "host.name": "n1", "hw.id": "0"}


def test_a_counter_adds_up_since_the_begin_of_the_process():
    metric = encoded(Sample(METRICS["windlass_pods_bound_total"], {}, 7, NOW))["windlass.pods.bound"]
    (point,) = metric.sum.data_points
    assert metric.sum.is_monotonic
    assert (point.as_double, point.start_time_unix_nano) == (7, BEGUN * 1_000_000)


def test_a_histogram_keeps_its_buckets():
    metric = METRICS["windlass_turn_seconds"]
    found = encoded(HistogramSample(metric, {}, (0.1, 1.0), (2, 3, 1), 4.5, NOW))[metric.otel_name]
    (point,) = found.histogram.data_points
    assert (list(point.bucket_counts), list(point.explicit_bounds)) == ([2, 3, 1], [0.1, 1.0])
    assert (point.count, point.sum) == (6, 4.5)
