"""Containers that kubelets restart in place are counted, shown and announced, with and without a backoff limit."""

from __future__ import annotations

from typing import Any

import pytest
from member_stage import Stage

from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.status.event_correlation import EventRecord
from windlass.backends.kubernetes.status.job_announcer import JobAnnouncer, announced_topics
from windlass.backends.kubernetes.status.job_waits import container_wait, job_wait
from windlass.backends.kubernetes.status.restarting_members import restart_wait
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


def put(
    on: Stage, name: str, restarts: int, state: dict[str, Any] | None = None, last: dict[str, Any] | None = None
) -> None:
    container = {
        "name": "pytorch",
        "restartCount": restarts,
        "state": state or {"running": {}},
        "lastState": last or {},
    }
    status = {"phase": "Running", "startTime": "2026-11-27T12:00:00Z", "containerStatuses": [container]}
    on.put({"metadata": {"name": name}, "status": status})


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


LATER = 1_795_781_400_000
"""2026-11-27T12:10Z"""
BACK_OFF = "back-off 1m20s restarting failed container=pytorch pod=digits-worker-0_ml(u)"


def ended(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    times = {"startedAt": "2026-11-27T12:09:00Z", "finishedAt": "2026-11-27T12:09:30Z"}
    return {"terminated": {"exitCode": code, "reason": reason, "message": message, **times}}


def waits(message: str = BACK_OFF) -> dict[str, Any]:
    return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}


def runs(since: str) -> dict[str, Any]:
    return {"running": {"startedAt": since}}


def test_a_member_that_waits_for_its_next_start_has_its_last_end_and_the_time_of_the_start() -> None:
    on = stage({})
    put(on, "digits-worker-0", 5, waits(), ended(139))
    found = restart_wait(on.gang, LATER)
    assert found is not None
    assert found.reason == "CrashLoopBackOff"
    assert found.message == (
        "rank 1 (container pytorch of digits-worker-0) ends again and again: 5 restarts since 2026-11-27 12:00 UTC, "
        "last exit code 139 (Error) at 2026-11-27 12:09:30 UTC, next start at 2026-11-27 12:10:50 UTC"
    )


def test_a_member_that_runs_again_is_told_until_it_has_run_for_ten_minutes() -> None:
    on = stage({})
    put(on, "digits-worker-0", 2, runs("2026-11-27T12:09:40Z"), ended(1))
    found = restart_wait(on.gang, LATER)
    assert found is not None
    assert found.reason == "RestartedInPlace"
    assert found.message.endswith("12:09:30 UTC, runs again since 2026-11-27 12:09:40 UTC")
    assert restart_wait(on.gang, LATER + 600_000) is None


def test_one_restart_is_not_again_and_again() -> None:
    on = stage({})
    put(on, "digits-worker-0", 1, runs("2026-11-27T12:09:40Z"), ended(1))
    assert restart_wait(on.gang, LATER) is None


def test_the_member_with_most_restarts_is_told_and_others_are_counted() -> None:
    on = stage({})
    put(on, "digits-master-0", 2, waits(), ended(1))
    put(on, "digits-worker-0", 7, waits(), ended(137, "OOMKilled"))
    found = restart_wait(on.gang, LATER)
    assert found is not None
    assert found.message.startswith("rank 1 (container pytorch of digits-worker-0) ends again and again: 7 restarts")
    assert "last exit code 137 (OOMKilled)" in found.message
    assert found.message.endswith("; so does 1 other member")


@pytest.mark.parametrize("message", ["", "back-off restarting failed container", "back-off 999999999999s restarting"])
def test_a_message_without_a_duration_has_no_time_of_the_next_start(message: str) -> None:
    on = stage({})
    put(on, "digits-worker-0", 5, waits(message), ended(1))
    found = restart_wait(on.gang, LATER)
    assert found is not None
    assert found.message.endswith("at 2026-11-27 12:09:30 UTC")


def test_a_running_job_waits_for_the_member_with_what_its_program_has_written() -> None:
    on = stage({})
    put(on, "digits-worker-0", 5, waits(), ended(1, message="RuntimeError: no data set"))
    wait = job_wait(on.gang, LATER)
    assert wait is not None
    assert (wait.kind, wait.generation, wait.topic) == ("start", 1, "program")
    assert wait.text.startswith("CrashLoopBackOff: rank 1 (container pytorch of digits-worker-0)")
    assert wait.text.endswith("\nRuntimeError: no data set")
