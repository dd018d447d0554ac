"""Evidence of an attempt on a cluster: the recorded ends of logs, and the conditions of nodes."""

from typing import Any

from windlass.backends.kubernetes.client.objects import Condition, Metadata, Node, NodeStatus
from windlass.backends.kubernetes.gangs.gang import LastWait
from windlass.core.model.job import Job, Role
from windlass.core.model.status import Failure, FailureClass, JobState, Phase, Status
from windlass.server.operator.attempt_diagnosis import cluster_evidence, condition_texts, obstacle_text
from windlass.server.operator.history.entries import StoredLog

DETAILS: dict[str, Any] = {
    "id": "default/digits",
    "spec": {"roles": [{"procs": 1}]},
    "status": {"generation": 1, "failed_generation": 0},
    "transitions": [],
    "tasks": [],
}


def recorded(text: str, missing: str = "") -> StoredLog:
    return StoredLog(1, 0, "worker", 0, "digits-0", "n1", text, missing)


def test_the_last_lines_of_a_log_are_no_complete_log() -> None:
    for text, is_complete in (("line\n" * 499, True), ("line\n" * 500, False), ("x" * (64 << 10), False)):
        request = cluster_evidence(DETAILS, [recorded(text)], 1)
        assert request.texts[0].is_complete is is_complete
        assert list(request.unseen) == ([] if is_complete else ["pod digits-0: the lines before its last ones"])


def test_a_log_that_could_not_be_read_is_not_complete() -> None:
    request = cluster_evidence(DETAILS, [recorded("", "its log could not be read")], 1)
    assert not request.texts[0].is_complete
    assert list(request.unseen) == ["pod digits-0: its log could not be read"]


def test_problems_among_the_conditions_of_a_node_are_trusted_evidence() -> None:
    good, bad = Condition("Ready", "True", "KubeletReady"), Condition("GpuProblem", "True", "Xid79", "NVRM: Xid 79")
    past = Condition("KernelDeadlock", "False", "KernelHasNoDeadlock", "kernel has no deadlock")
    nodes = [
        Node(Metadata(name, "uid", "1"), status=NodeStatus(conditions=seen))
        for name, seen in (("n1", (good, past, bad)), ("n2", (good,)))
    ]
    [text] = condition_texts(nodes)
    assert (text.node, text.is_trusted, text.text) == ("n1", True, "GpuProblem: Xid79\nNVRM: Xid 79\n")


def ended(reason: str) -> JobState:
    failure = Failure(FailureClass.INFRASTRUCTURE, reason, "not started in time", 5)
    status = Status(phase=Phase.FAILED, reason=reason, failed_generation=1, last_failure=failure)
    return JobState("default/digits", 1, Job("digits", (Role(),)), status)


def test_events_are_evidence_only_of_an_attempt_that_has_not_started_and_are_marked() -> None:
    wait = LastWait(1, "FailedMount: no such secret", from_events=True)
    [text] = obstacle_text(ended("StartTimeout"), wait)
    assert (text.text, text.from_events, text.is_trusted, text.node) == (f"{wait.text}\n", True, False, None)
    assert list(obstacle_text(ended("ExitCode"), wait)) == []
    assert list(obstacle_text(ended("StartTimeout"), wait._replace(attempt=2))) == []
