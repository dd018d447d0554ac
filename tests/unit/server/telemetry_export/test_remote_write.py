"""Messages of Prometheus remote write."""

import math

import cramjam
import numpy as np

from windlass.server.telemetry_export.remote_write import _encoder, _write_request_type, receiver_address, to_series
from windlass.telemetry.frames import CLUSTER, MetricFrame, job_scope, node_scope, scalar
from windlass.telemetry.metric_table import METRICS, series_name
from windlass.telemetry.samples import HistogramSample, frame_samples

NOW = 1_700_000_000_000


def decoded(body: bytes) -> dict[tuple[tuple[str, str], ...], list[tuple[float, int]]]:
    request = _write_request_type().FromString(bytes(cramjam.snappy.decompress_raw(body)))
    return {
        tuple((label.name, label.value) for label in one.labels): [(each.value, each.timestamp) for each in one.samples]
        for one in request.timeseries
    }


def test_a_series_has_sorted_labels_and_its_samples_in_order_of_time():
    name = 'x"} 1\n\\'
    frames = [
        MetricFrame(job_scope(name), NOW + 2_000, {"windlass_job_loss": scalar(0.25)}),
        MetricFrame(job_scope(name), NOW, {"windlass_job_loss": scalar(0.5)}),
        MetricFrame(CLUSTER, NOW, {series_name("windlass_pending_gangs", reason='a"\\b\nc'): scalar(3)}),
    ]
    series = to_series(frame_samples(frames), {"job": "windlass", "instance": "here"})
    assert decoded(_encoder()(series.items())) == {
        (("__name__", "windlass_job_loss"), ("instance", "here"), ("job", "windlass"), ("job_id", name)): [
            (0.5, NOW),
            (0.25, NOW + 2_000),
        ],
        (
            *(("__name__", "windlass_pending_gangs"), ("instance", "here"), ("job", "windlass")),
            ("reason", 'a"\\b\nc'),
        ): [(3, NOW)],
    }


def test_ranks_are_optional_and_gpus_have_one_series_each():
    frames = [
        MetricFrame(job_scope("a"), NOW, {"windlass_rank_busy_seconds": np.array([1, math.nan, 3], np.float32)}),
        MetricFrame(node_scope("n1"), NOW, {"windlass_gpu_utilization_ratio": np.array([0.5, 1], np.float32)}),
    ]
    gpus = [dict(sample.labels) for sample in frame_samples(frames)]
    assert gpus == [{"node": "n1", "gpu": "0"}, {"node": "n1", "gpu": "1"}]
    ranks = [sample.labels["rank"] for sample in frame_samples(frames, ranks=True) if "rank" in sample.labels]
    assert ranks == ["0", "2"]


def test_a_histogram_becomes_buckets_that_add_up():
    metric = METRICS["windlass_turn_seconds"]
    series = to_series([HistogramSample(metric, {}, (0.1, 1.0), (2, 3, 1), 4.5, NOW)], {})
    values = {tuple(value for _, value in key): points[0][0] for key, points in series.items()}
    assert values == {
        ("windlass_turn_seconds_bucket", "0.1"): 2,
        ("windlass_turn_seconds_bucket", "1.0"): 5,
        ("windlass_turn_seconds_bucket", "+Inf"): 6,
        ("windlass_turn_seconds_count",): 6,
        ("windlass_turn_seconds_sum",): 4.5,
    }


def test_an_address_in_a_message_has_no_password():
    assert receiver_address("https://ada:secret@host:9090/api/v1/write?x=1") == "https://host:9090/api/v1/write"
