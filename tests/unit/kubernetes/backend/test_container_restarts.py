"""Containers that kubelets restart in place are counted, shown and announced, with and without a backoff limit."""

from __future__ import annotations

from typing import Any

import pytest
from member_stage import Stage

from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.status.event_correlation import EventRecord
from windlass.backends.kubernetes.status.job_announcer import JobAnnouncer, announced_topics
from windlass.backends.kubernetes.status.job_waits import container_wait
from windlass.core.model.status import Phase

WAITS = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}}


def stage(run_policy: dict[str, Any]) -> Stage:
    replicas = {"restartPolicy": "OnFailure", "template": {"spec": {"containers": [{"name": "pytorch", "image": "i"}]}}}
    specs = {"Master": {**replicas, "replicas": 1}, "Worker": {**replicas, "replicas": 1}}
    return Stage(
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": {"name": "digits"},
            "spec": {"runPolicy": run_policy, "pytorchReplicaSpecs": specs},
        }
    )


def put(on: Stage, name: str, restarts: int, state: dict[str, Any] | None = None) -> None:
    container = {"name": "pytorch", "restartCount": restarts, "state": state or {"running": {}}}
    on.put({"metadata": {"name": name}, "status": {"phase": "Running", "containerStatuses": [container]}})


def announce(on: Stage, *counts: int) -> list[str]:
    """The notes of the Events about a worker with so many restarts, one after the other."""
    found: list[EventRecord] = []
    announcer = JobAnnouncer(found.append, lambda: 0)
    for count in counts:
        put(on, "digits-worker-0", count)
        on.turn()
        announcer.announce(on.gang)
    return [each.note for each in found if each.reason == "PyTorchJobContainersRestarted"]


def test_restarts_in_place_count_without_a_backoff_limit() -> None:
    on = stage({})
    put(on, "digits-master-0", 2)
    put(on, "digits-worker-0", 3, WAITS)
    on.turn()
    status = on.state.status
    assert (status.phase, status.target, status.container_restarts) == (Phase.RUNNING, None, 5)
    assert container_wait(on.gang) == (
        "CrashLoopBackOff",
        "container pytorch of digits-worker-0: back-off 40s restarting failed container",
    )


def test_restarts_in_place_end_a_job_at_its_backoff_limit() -> None:
    on = stage({"backoffLimit": 3})
    put(on, "digits-worker-0", 3)
    on.turn()
    assert on.state.status.reason == "BackoffLimitExceeded"


def test_the_event_comes_again_when_the_number_has_doubled() -> None:
    assert announce(stage({}), 0, *range(1, 101)) == [
        f"Kubelets have restarted containers of PyTorchJob digits in place, {count} in all."
        for count in (1, 2, 4, 8, 16, 32, 64)
    ]


@pytest.mark.parametrize(("count", "expected"), [(5, []), (8, [8])])
def test_another_leader_does_not_repeat_the_event(count: int, expected: list[int]) -> None:
    on = stage({})
    put(on, "digits-worker-0", 4)
    on.turn()
    gang: Gang = on.gang
    gang.notes.announced = announced_topics(gang)
    assert [f"{each} in all" for each in expected] == [note.split(", ")[1][:-1] for note in announce(on, count)]
