"""Frames in the text format of Prometheus, as its own parser reads them."""

import math

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from windlass.telemetry.exposition import render_frames
from windlass.telemetry.frames import CLUSTER, MetricFrame, job_scope, queue_scope, scalar
from windlass.telemetry.metric_table import series_name

NOW = 1_700_000_000_000


def samples(*frames: MetricFrame, **options: int) -> dict[tuple[str, ...], float]:
    """Values by name and labels, `label=value`."""
    text = render_frames(frames, **options).decode()
    return {
        (each.name, *(f"{label}={value}" for label, value in each.labels.items())): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


def job(name: str, busy: list[float]) -> MetricFrame:
    values = {"windlass_job_loss": scalar(0.5), "windlass_rank_busy_seconds": np.array(busy, dtype=np.float32)}
    return MetricFrame(job_scope(name), NOW, values)


def test_a_series_has_the_label_of_its_scope_and_its_own() -> None:
    held = series_name("windlass_queue_held", resource="gpu")
    found = samples(
        MetricFrame(CLUSTER, NOW, {"windlass_nodes": scalar(3)}),
        MetricFrame(queue_scope("research"), NOW, {held: scalar(64)}),
        job("team/digits", [0.25]),
    )
    assert found == {
        ("windlass_nodes",): 3,
        ("windlass_queue_held", "queue=research", "resource=gpu"): 64,
        ("windlass_job_loss", "job_id=team/digits"): 0.5,
    }


def test_ranks_are_optional_and_those_without_a_value_are_left_out() -> None:
    found = samples(job("digits", [0.25, math.nan, 0.5]), ranks=True)
    assert {key: value for key, value in found.items() if key[0].startswith("windlass_rank_busy")} == {
        ("windlass_rank_busy_seconds", "job_id=digits", "rank=0"): 0.25,
        ("windlass_rank_busy_seconds", "job_id=digits", "rank=2"): 0.5,
    }


def test_series_of_ranks_beyond_the_limit_are_counted() -> None:
    found = samples(job("a", [0.25, 0.5]), job("b", [0.25, 0.5, 0.75]), job("c", [1.0]), ranks=True, limit=3)
    ranked = {key[1] for key in found if key[0].startswith("windlass_rank_busy")}
    assert ranked == {"job_id=a", "job_id=c"}
    assert found["windlass_rank_series_left_out",] == 3


def test_a_hostile_name_is_one_label() -> None:
    name = 'x"} 1\nwindlass_leader{y="\\'
    assert samples(job(name, [])) == {("windlass_job_loss", f"job_id={name}"): 0.5}


def test_metrics_of_another_version_are_left_out() -> None:
    assert samples(MetricFrame(CLUSTER, NOW, {"windlass_former": scalar(1), "windlass_nodes": scalar(2)})) == {
        ("windlass_nodes",): 2
    }


def test_values_of_a_metric_are_together_under_one_type() -> None:
    text = render_frames([job("a", []), job("b", [])]).decode()
    assert text.splitlines()[1:] == [
        "# TYPE windlass_job_loss gauge",
        'windlass_job_loss{job_id="a"} 0.5',
        'windlass_job_loss{job_id="b"} 0.5',
    ]
