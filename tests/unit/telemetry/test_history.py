"""A history takes the finest frames of each part of its span, and no more points than asked for."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from windlass.telemetry.frames import MetricFrame, Tier, job_scope, scalar
from windlass.telemetry.history import read_history, reduce_points, series_of
from windlass.telemetry.metric_table import METRICS, metric_of, series_name
from windlass.telemetry.store import TelemetryStore

HOUR = 3_600_000
START = 500_000 * HOUR
JOB = job_scope("digits-1")


def test_a_long_run_is_hours_then_minutes_then_raw_frames_without_overlap(tmp_path: Path) -> None:
    store = TelemetryStore.create(tmp_path / "telemetry.db")
    for hour in range(30):
        first = START + hour * HOUR
        store.add(MetricFrame(JOB, first + i * 30_000, {"windlass_job_step": scalar(hour)}) for i in range(120))
        store.compact(first + HOUR + 20_000)
    frames = read_history(store, JOB, 0, START * 2, points=100_000)
    times = [frame.time for frame in frames]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    store.close()
    assert times == sorted(set(times))
    assert times[0] == START
    assert set(gaps) == {HOUR, 60_000, 30_000}
    assert gaps == sorted(gaps, reverse=True)


def test_a_history_of_few_points_is_that_of_minutes_up_to_the_last_closed_one(tmp_path: Path) -> None:
    store = TelemetryStore.create(tmp_path / "telemetry.db")
    store.add(MetricFrame(JOB, START + i * 10_000, {"windlass_job_step": scalar(i)}) for i in range(332))
    store.compact(START + HOUR - 280_000)
    frames = read_history(store, JOB, START, START * 2, which="last", points=11)
    found = [(frame.time - START, frame.values["windlass_job_step"].tolist()) for frame in frames]
    store.close()
    assert found == [(300_910 * i, [35.0 + 30 * i]) for i in range(10)] + [(3_009_100, [331.0])]


def test_points_limit_the_answer_and_a_statistic_stands_for_each_span() -> None:
    frames = [MetricFrame(JOB, START + i * 1_000, {"windlass_job_loss": scalar(i)}) for i in range(100)]
    found = reduce_points(frames, 0, START * 2, which="max", points=10)
    assert [frame.values["windlass_job_loss"].tolist() for frame in found] == [[9.0 + 10 * i] for i in range(10)]
    assert [frame.time - START for frame in found] == [9_901 * i for i in range(10)]


def test_series_keep_the_values_of_each_rank() -> None:
    frames = [MetricFrame(JOB, 1, {"windlass_rank_step": np.array([1, 2], np.float32)})]
    found = series_of(frames)
    assert {name: [(at, row.tolist()) for at, row in rows] for name, rows in found.items()} == {
        "windlass_rank_step": [(1, [1.0, 2.0])]
    }


def test_names_of_series_escape_what_users_write() -> None:
    assert series_name("windlass_queue_held", resource='a"b\\c\nd') == 'windlass_queue_held{resource="a\\"b\\\\c\\nd"}'
    assert metric_of(series_name("windlass_queue_held", resource="gpu")) is METRICS["windlass_queue_held"]


def test_labels_that_a_metric_lacks_are_refused() -> None:
    with pytest.raises(ValueError, match="windlass_nodes has the labels none, not phase"):
        series_name("windlass_nodes", phase="Running")


def test_units_follow_the_name_of_a_metric() -> None:
    endings = {"_seconds": "s", "_bytes": "By", "_ratio": "1"}
    for metric in METRICS.values():
        for ending, unit in endings.items():
            assert (metric.unit == unit) == metric.name.endswith(ending), metric.name


def test_frames_of_a_scope_that_is_not_there_are_none(tmp_path: Path) -> None:
    store = TelemetryStore.create(tmp_path / "telemetry.db")
    assert store.frames(job_scope("other-1"), Tier.RAW, 0, START) == []
    store.close()
