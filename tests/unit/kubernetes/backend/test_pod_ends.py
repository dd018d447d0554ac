"""Ends of pods, read from the status that kubelets and controllers write."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from windlass.backends.kubernetes.client.objects import Container, Pod
from windlass.backends.kubernetes.pods import pod_ends
from windlass.backends.kubernetes.pods.pod_ends import Stage
from windlass.core.lifecycle.failure import EVICTED, NODE_OUT_OF_MEMORY, OUT_OF_MEMORY, REJECTED, classify_exit
from windlass.core.model.job import RestartPolicy
from windlass.wire import LOST, USER

START = "2026-01-01T00:00:00Z"
AT = 1_767_225_600_000
PATIENCE = 60_000


def pod(**status: Any) -> Pod:
    metadata = {"name": "digits-worker-0", "namespace": "ml", "uid": "u", "resourceVersion": "1"}
    about = {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": {"startTime": START, **status}}
    return msgspec.convert(about, Pod)


def terminated(code: int, reason: str = "Error", message: str = "") -> list[dict[str, Any]]:
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    return [{"name": "main", "state": state}]


def waiting(reason: str, message: str = "") -> list[dict[str, Any]]:
    return [{"name": "main", "state": {"waiting": {"reason": reason, "message": message}}}]


def test_a_pod_that_succeeded_ended_with_code_0() -> None:
    seen = pod_ends.observe(pod(phase="Succeeded", containerStatuses=terminated(0, "Completed")), AT, PATIENCE)
    assert (seen.stage, seen.exit and seen.exit.code, seen.ran) == (Stage.ENDED, 0, True)


@pytest.mark.parametrize(
    ("status", "detail"),
    [
        (terminated(3), "digits-worker-0 on n1 exited with code 3"),
        (terminated(143), "digits-worker-0 on n1 exited with code 143 (SIGTERM)"),
        (terminated(1, message="a\nValueError: x\n"), "digits-worker-0 on n1 exited with code 1: ValueError: x"),
    ],
)
def test_a_failure_is_reported_with_its_code_and_details(status: Any, detail: str) -> None:
    seen = pod_ends.observe(pod(phase="Failed", containerStatuses=status), AT, PATIENCE)
    assert seen.exit is not None
    assert seen.exit.detail == detail


def test_an_exit_code_may_request_a_restart() -> None:
    seen = pod_ends.observe(pod(phase="Failed", containerStatuses=terminated(84)), AT, PATIENCE)
    assert seen.exit is not None
    assert classify_exit(seen.exit, RestartPolicy()).reason == "AskedForRetry"
    assert seen.exit.detail == "digits-worker-0 on n1 asked to be started again (exit code 84)"


@pytest.mark.parametrize("limits", [{"memory": "1Gi"}, {}])
def test_an_oom_kill_is_a_user_failure_only_under_a_limit_of_the_container(limits: dict[str, str]) -> None:
    killed = pod(phase="Failed", containerStatuses=terminated(137, "OOMKilled"))
    container = msgspec.convert({"name": "main", "resources": {"limits": limits}}, Container)
    killed = msgspec.structs.replace(killed, spec=msgspec.structs.replace(killed.spec, containers=(container,)))
    seen = pod_ends.observe(killed, AT, PATIENCE)
    assert seen.exit is not None
    assert seen.exit.end_class is (OUT_OF_MEMORY if limits else NODE_OUT_OF_MEMORY)
    assert ("its memory limit is 1Gi" in seen.exit.detail) == bool(limits)


def ended_at(name: str, code: int, second: int, reason: str = "Error") -> dict[str, Any]:
    finished = f"2026-01-01T00:00:{second:02}Z"
    return {"name": name, "state": {"terminated": {"exitCode": code, "reason": reason, "finishedAt": finished}}}


def with_sidecar(**status: Any) -> Pod:
    """A failed pod with a native sidecar: an init container that is always restarted."""
    failed = pod(phase="Failed", **status)
    main = msgspec.convert({"name": "main", "resources": {"limits": {"memory": "1Gi"}}}, Container)
    sidecar = msgspec.convert({"name": "gcs-fuse", "restartPolicy": "Always"}, Container)
    spec = msgspec.structs.replace(failed.spec, containers=(main,), init_containers=(sidecar,))
    return msgspec.structs.replace(failed, spec=spec)


def test_the_end_of_the_main_container_counts_and_not_that_of_a_killed_sidecar() -> None:
    failed = with_sidecar(
        initContainerStatuses=[ended_at("gcs-fuse", 143, 12)], containerStatuses=[ended_at("main", 1, 1)]
    )
    seen = pod_ends.observe(failed, AT, PATIENCE)
    assert seen.exit is not None
    assert (seen.exit.code, seen.at) == (1, AT + 1_000)
    assert classify_exit(seen.exit, RestartPolicy()).kind == USER


def test_an_oom_kill_counts_although_the_sidecar_was_killed_with_the_same_code() -> None:
    failed = with_sidecar(
        initContainerStatuses=[ended_at("gcs-fuse", 137, 12)], containerStatuses=[ended_at("main", 137, 1, "OOMKilled")]
    )
    seen = pod_ends.observe(failed, AT, PATIENCE)
    assert seen.exit is not None
    assert seen.exit.end_class is OUT_OF_MEMORY


def test_a_sidecar_that_fails_before_the_main_container_is_ignored() -> None:
    failed = with_sidecar(
        initContainerStatuses=[ended_at("gcs-fuse", 1, 1)], containerStatuses=[ended_at("main", 143, 5)]
    )
    seen = pod_ends.observe(failed, AT, PATIENCE)
    assert seen.exit is not None
    assert (seen.exit.code, seen.at) == (143, AT + 5_000)


def test_the_first_container_that_failed_decides() -> None:
    failed = pod(phase="Failed", containerStatuses=[ended_at("proxy", 143, 12), ended_at("main", 1, 1)])
    seen = pod_ends.observe(failed, AT, PATIENCE)
    assert seen.exit is not None
    assert (seen.exit.code, seen.at) == (1, AT + 1_000)


def test_a_program_that_could_not_be_started_has_not_run() -> None:
    statuses = terminated(128, "StartError", 'exec: "/no/such": no such file')
    seen = pod_ends.observe(pod(phase="Failed", containerStatuses=statuses), AT, PATIENCE)
    assert not seen.ran
    assert seen.exit is not None
    assert seen.exit.detail == 'digits-worker-0 on n1 cannot start: exec: "/no/such": no such file'


LOST_ENDS = [(255, "Unknown", ""), (137, "ContainerStatusUnknown", "The container could not be located")]


@pytest.mark.parametrize(("code", "reason", "message"), LOST_ENDS)
def test_an_end_that_the_container_runtime_lost_is_no_exit_of_the_program(code: int, reason: str, message: str) -> None:
    """Neither the lists of the job nor a policy that restarts after no exit apply to it."""
    seen = pod_ends.observe(pod(phase="Failed", containerStatuses=terminated(code, reason, message)), AT, PATIENCE)
    assert seen.exit is not None
    assert seen.ran
    assert (seen.exit.code, seen.exit.lost) == (None, True)
    policy = RestartPolicy(restarts_after_exit=False, fatal_exit_codes=(code,))
    assert classify_exit(seen.exit, policy) == LOST
    because = f": {message}" if message else ""
    assert seen.exit.detail == f"digits-worker-0 on n1: the end of container main was not observed ({reason}){because}"


def test_a_lost_end_has_no_time_and_so_precedes_those_of_its_peers() -> None:
    """containerd writes the time at which it started again."""
    done = ended_at("proxy", 0, 1, "Completed")
    failed = pod(phase="Failed", containerStatuses=[done, ended_at("main", 255, 12, "Unknown")])
    assert pod_ends.observe(failed, AT, PATIENCE).at is None


def test_an_exit_precedes_the_lost_end_of_another_container() -> None:
    failed = pod(
        phase="Failed", containerStatuses=[ended_at("proxy", 255, 12, "Unknown"), ended_at("main", 1, 1, "Error")]
    )
    seen = pod_ends.observe(failed, AT, PATIENCE)
    assert seen.exit is not None
    assert (seen.exit.code, seen.at) == (1, AT + 1_000)


@pytest.mark.parametrize("reason", ["Evicted", "NodeShutdown", "Terminated"])
def test_an_evicted_pod_is_lost(reason: str) -> None:
    seen = pod_ends.observe(pod(phase="Failed", reason=reason, message="the node was low on memory"), AT, PATIENCE)
    assert seen.exit is not None
    assert (seen.exit.lost, seen.exit.end_class) == (True, EVICTED)
    assert reason in seen.exit.detail


def test_a_pod_that_the_kubelet_rejected_needs_another_node() -> None:
    seen = pod_ends.observe(pod(phase="Failed", reason="OutOfnvidia.com/gpu", message="Node didn't have enough"), AT, 0)
    assert seen.exit is not None
    assert seen.exit.end_class is REJECTED


def test_a_disruption_is_a_failure_of_infrastructure() -> None:
    why = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API"}
    seen = pod_ends.observe(pod(phase="Failed", conditions=[why], containerStatuses=terminated(143)), AT, PATIENCE)
    assert seen.exit is not None
    assert seen.exit.lost
    assert "EvictionByEvictionAPI" in seen.exit.detail


def test_an_image_pull_may_fail_until_its_timeout() -> None:
    broken = pod(phase="Pending", containerStatuses=waiting("ImagePullBackOff", "no such image"))
    assert pod_ends.observe(broken, AT + PATIENCE - 1, PATIENCE).exit is None
    assert pod_ends.due(broken, PATIENCE) == AT + PATIENCE
    late = pod_ends.observe(broken, AT + PATIENCE, PATIENCE)
    assert late.exit is not None
    assert late.exit.detail == ("digits-worker-0 on n1: container main cannot start: ImagePullBackOff: no such image")


def test_a_container_that_can_never_start_fails_at_once() -> None:
    broken = pod(phase="Pending", containerStatuses=waiting("CreateContainerConfigError", "secret not found"))
    assert pod_ends.observe(broken, AT, PATIENCE).exit is not None
    assert pod_ends.due(broken, PATIENCE) is None


@pytest.mark.parametrize("reason", ["CreateContainerConfigError", "CreateContainerError", "RunContainerError"])
def test_a_container_runtime_that_does_not_answer_has_time_to_come_back(reason: str) -> None:
    """The kubelet tries again; this message was seen when containerd was killed while containers started."""
    broken = pod(phase="Pending", containerStatuses=waiting(reason, "error reading from server: EOF"))
    assert pod_ends.observe(broken, AT + PATIENCE - 1, PATIENCE).exit is None
    assert pod_ends.due(broken, PATIENCE) == AT + PATIENCE
    late = pod_ends.observe(broken, AT + PATIENCE, PATIENCE)
    assert late.exit is not None
    assert classify_exit(late.exit, RestartPolicy()) == LOST


def test_a_pod_that_runs_or_waits_has_not_ended() -> None:
    assert pod_ends.observe(pod(phase="Running"), AT, 0).stage is Stage.RUNNING
    assert pod_ends.observe(pod(phase="Pending"), AT, 0).stage is Stage.WAITING
