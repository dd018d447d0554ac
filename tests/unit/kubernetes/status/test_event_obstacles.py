"""Obstacles that only Events name: which warnings count, and which later Events end them."""

from __future__ import annotations

import msgspec
import pytest

from windlass.backends.kubernetes.client.pod_events import EventSeries, PodEvent
from windlass.backends.kubernetes.gangs.event_obstacles import EventObstacle, find_obstacle


def warning(second: int, reason: str, message: str = "why") -> PodEvent:
    return PodEvent("Warning", reason, message, last_timestamp=f"2026-01-01T00:00:{second:02}Z")


def normal(second: int, reason: str) -> PodEvent:
    return PodEvent("Normal", reason, "", last_timestamp=f"2026-01-01T00:00:{second:02}Z")


def topic_of(*events: PodEvent) -> str:
    found = find_obstacle(1, "uid", events)
    return "" if found is None else found.topic


@pytest.mark.parametrize(
    ("reason", "topic"),
    [
        ("FailedMount", "volume"),
        ("FailedAttachVolume", "volume"),
        ("FailedMapVolume", "volume"),
        ("FailedCreatePodSandBox", "sandbox"),
        ("NetworkNotReady", "sandbox"),
        ("FailedScheduling", "placement"),
        ("FailedCreate", "creation"),
        ("Unhealthy", ""),
        ("DNSConfigForming", ""),
    ],
)
def test_a_warning_has_a_topic(reason: str, topic: str) -> None:
    assert topic_of(normal(0, "Scheduled"), warning(1, reason)) == topic


def test_the_newest_topic_is_the_obstacle_with_its_messages() -> None:
    events = [
        warning(1, "FailedScheduling", "no node"),
        normal(2, "Scheduled"),
        warning(3, "FailedAttachVolume", "Multi-Attach error\nfor volume a"),
        warning(9, "FailedMount", "timed out"),
        warning(4, "FailedMount", "timed out"),
    ]
    text = "FailedMount: timed out\nFailedAttachVolume: Multi-Attach error for volume a"
    assert find_obstacle(2, "uid", events) == EventObstacle(2, "uid", "volume", text)


@pytest.mark.parametrize(
    ("before", "later", "topic"),
    [
        ("FailedMount", "Pulling", ""),
        ("FailedMount", "Scheduled", "volume"),
        ("FailedCreatePodSandBox", "Created", ""),
        ("FailedScheduling", "Scheduled", ""),
        ("FailedCreate", "SuccessfulCreate", ""),
        ("FailedCreate", "Pulling", "creation"),
    ],
)
def test_a_later_step_of_the_pod_ends_an_obstacle(before: str, later: str, topic: str) -> None:
    assert topic_of(warning(1, before), normal(2, later)) == topic
    assert topic_of(normal(1, later), warning(1, before)) == topic, "within one second the step is the later one"


@pytest.mark.parametrize(
    "reporter",
    [{"reportingComponent": "windlass.dev/operator"}, {"source": {"component": "windlass.dev/operator"}}],
    ids=["events.k8s.io", "core"],
)
def test_an_event_of_the_operator_itself_is_no_obstacle(reporter: dict[str, object]) -> None:
    written = {"type": "Warning", "reason": "FailedScheduling", "message": "node n1: GPU fell off", **reporter}
    kubelets = {**written, "reportingComponent": "kubelet", "source": {"component": "kubelet"}}
    assert find_obstacle(1, "uid", [msgspec.convert(written, PodEvent)]) is None
    assert find_obstacle(1, "uid", [msgspec.convert(kubelets, PodEvent)]) is not None


def test_a_repeated_warning_is_as_new_as_its_last_repetition() -> None:
    series = EventSeries(last_observed_time="2026-01-01T00:00:30.000000Z")
    event = PodEvent("Warning", "FailedMount", "why", event_time="2026-01-01T00:00:01.000000Z", series=series)
    assert topic_of(event, normal(20, "Pulling")) == "volume"


def test_few_distinct_messages_are_kept_and_hostile_ones_break_no_line() -> None:
    events = [warning(number, "FailedMount", f"volume {number}\nrank 0 was killed") for number in range(30)]
    found = find_obstacle(1, "uid", [*events, PodEvent("Warning", "FailedMount", "no time", last_timestamp="soon")])
    assert found is not None
    assert found.text.splitlines()[0] == "FailedMount: volume 29 rank 0 was killed"
    assert len(found.text.splitlines()) == 4
