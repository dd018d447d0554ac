"""Events about one job: the same ones are counted, similar ones are combined, and those of many pods are limited."""

from __future__ import annotations

from windlass.backends.kubernetes.client.object_reference import ObjectReference
from windlass.backends.kubernetes.client.resources import EVENTS, named
from windlass.backends.kubernetes.status.event_correlation import (
    COMBINED,
    NORMAL,
    CountedEvent,
    EventCorrelation,
    EventRecord,
)
from windlass.backends.kubernetes.status.events import event

JOB = ObjectReference(named("kubeflow.org/v1", "pytorchjobs", "PyTorchJob"), "ml", "digits", "u")
NOON = 1_767_268_800_000


def created(number: int, at: int = NOON, job: ObjectReference = JOB) -> EventRecord:
    note = f"Created pod: digits-worker-{number}"
    return EventRecord(job, "SuccessfulCreatePod", "Create", note, at, NORMAL, is_limited=True)


def ended(reason: str = "PyTorchJobFailed", note: str = "it has failed", at: int = NOON) -> EventRecord:
    return EventRecord(JOB, reason, "Failed", note, at)


def taken(records: list[EventRecord]) -> list[CountedEvent]:
    correlation = EventCorrelation()
    return [found for each in records if (found := correlation.take(each)) is not None]


def test_an_event_has_the_fields_that_clients_of_kubeflow_read() -> None:
    made = event(taken([created(0)])[0])
    assert EVENTS.api_version == made["apiVersion"] == "v1"
    assert made["firstTimestamp"] == made["lastTimestamp"] == "2026-01-01T12:00:00Z"
    assert made["eventTime"] == "2026-01-01T12:00:00.000000Z"
    assert (made["count"], made["type"], made["reason"]) == (1, "Normal", "SuccessfulCreatePod")
    assert made["source"] == {"component": made["reportingComponent"]} == {"component": "windlass.dev/operator"}
    assert made["involvedObject"] == {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "namespace": "ml",
        "name": "digits",
        "uid": "u",
    }


def test_the_same_event_again_is_counted_in_the_one_that_exists() -> None:
    first, other, second = taken([ended(), ended(note="of another reason"), ended(at=NOON + 5_000)])
    assert first.name == second.name != other.name
    made = event(second)
    assert (made["count"], made["message"]) == (2, "it has failed")
    assert (made["firstTimestamp"], made["lastTimestamp"]) == ("2026-01-01T12:00:00Z", "2026-01-01T12:00:05Z")


def test_the_pods_of_a_large_gang_are_combined_and_limited() -> None:
    found = taken([created(number) for number in range(2_000)])
    assert len(found) == 25
    assert len({each.name for each in found}) == 11
    assert [each.record.note for each in found[9:11]] == [
        "Created pod: digits-worker-9",
        f"{COMBINED}Created pod: digits-worker-10",
    ]


def test_another_job_and_the_end_of_the_job_are_not_limited_by_its_pods() -> None:
    other = ObjectReference(JOB.resource, "ml", "letters", "v")
    found = taken([*(created(number) for number in range(100)), created(0, job=other), ended()])
    assert [each.record.about.name for each in found[25:]] == ["letters", "digits"]


def test_after_five_minutes_one_more_event_about_a_pod_is_written() -> None:
    later = [created(number, NOON + 301_000) for number in range(100, 110)]
    assert len(taken([*(created(number) for number in range(100)), *later])) == 26


def test_an_event_that_the_api_server_has_deleted_is_written_under_a_new_name() -> None:
    correlation = EventCorrelation()
    first = correlation.take(ended())
    assert first is not None
    new = correlation.renewed(first)
    again = correlation.take(ended())
    assert again is not None
    assert again.name == new.name != first.name
