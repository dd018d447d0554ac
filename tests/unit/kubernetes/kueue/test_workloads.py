"""Workloads of jobs in queues of Kueue: their pods, what they say of an admission, and the next write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.backends.kubernetes.kueue.workload_actions import (
    JobFacts,
    WorkloadAction,
    conditions_by_type,
    next_action,
    status_after,
)
from windlass.backends.kubernetes.kueue.workload_object import kueue_queue, workload_name, workload_object
from windlass.backends.kubernetes.kueue.workload_state import (
    AdmissionPhase,
    KueueAdmission,
    admitted_job,
    read_admission,
)
from windlass.core.model.job import Toleration
from windlass.jobs.kubernetes.kinds.registry import read
from windlass.jobs.kubernetes.parsed_job import ParsedJob

LABEL = "kueue.x-k8s.io/queue-name"
TAINT = {"key": "gpu", "operator": "Exists"}
FLAVORS = {"a100": {"spec": {"nodeLabels": {"pool": "a100"}, "tolerations": [TAINT]}}}
WAITING = KueueAdmission(AdmissionPhase.WAITING)
ADMITTED = KueueAdmission(AdmissionPhase.ADMITTED)
EVICTED = KueueAdmission(AdmissionPhase.EVICTED)
AT = "2026-01-01T00:00:00Z"


def job(**fields: Any) -> ParsedJob:
    spec = {"image": "i", "command": ["torchrun", "t.py"], "gpus": 2, "env": {"TOKEN": "secret"}, **fields}
    about = {"name": "digits", "namespace": "ml", "uid": "u1", "labels": {LABEL: "research"}}
    found = read({"apiVersion": "windlass.dev/v1alpha1", "kind": "TrainingJob", "metadata": about, "spec": spec})
    assert isinstance(found, ParsedJob)
    return found


def workload(admission: dict[str, Any] | None = None, **conditions: str) -> dict[str, Any]:
    """A Workload whose conditions have these states, with a message each."""
    found = [
        {"type": name, "status": state, "reason": "Preempted", "message": f"because of {name}"}
        for name, state in conditions.items()
    ]
    status = {"conditions": found, **({"admission": admission} if admission else {})}
    return {"metadata": {"generation": 3}, "status": status}


def assigned(count: int, flavor: str = "a100") -> dict[str, Any]:
    return {"podSetAssignments": [{"name": "worker", "count": count, "flavors": {"nvidia.com/gpu": flavor}}]}


def test_the_label_of_a_job_names_its_queue() -> None:
    assert kueue_queue(job()) == "research"
    assert kueue_queue(replace(job(), kind="PyTorchJob")) == ""


def test_a_workload_counts_the_pods_of_each_role_and_shows_no_variables() -> None:
    made = workload_object(job(nodes=2, selector={"disk": "ssd"}), priority=7)
    [pods] = made["spec"]["podSets"]
    spec = pods["template"]["spec"]
    assert (made["spec"]["queueName"], made["spec"]["priority"], pods["count"]) == ("research", 7, 2)
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert spec["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert "secret" not in str(made)


def test_kueue_may_admit_an_elastic_job_with_fewer_pods() -> None:
    [pods] = workload_object(job(elastic={"min": 1, "max": 4}), 0)["spec"]["podSets"]
    assert (pods["count"], pods["minCount"]) == (4, 1)


def test_jobs_of_one_name_have_workloads_of_other_names() -> None:
    assert workload_name(job()) != workload_name(replace(job(), uid="u2"))


def test_a_pod_of_a_job_has_no_queue_of_kueue() -> None:
    template = job().replicas[0].template
    assert LABEL not in template["metadata"].get("labels", {})


def test_a_workload_without_quota_waits_with_the_message_of_kueue() -> None:
    found = read_admission(workload(QuotaReserved="False"), FLAVORS)
    assert found == KueueAdmission(AdmissionPhase.WAITING, "because of QuotaReserved")


def test_an_admitted_job_runs_on_the_nodes_of_its_flavor() -> None:
    found = read_admission(workload(assigned(2), QuotaReserved="True", Admitted="True"), FLAVORS)
    [role] = admitted_job(job(nodes=2).job, found).roles
    assert role.node_selector == {"pool": "a100"}
    assert Toleration("gpu", "Exists") in role.tolerations
    assert role.replicas == 2


def test_an_elastic_job_has_at_most_the_admitted_pods() -> None:
    found = read_admission(workload(assigned(2), QuotaReserved="True", Admitted="True"), FLAVORS)
    [role] = admitted_job(job(elastic={"min": 1, "max": 4}).job, found).roles
    assert (role.min_replicas, role.replicas, role.max_replicas) == (1, 2, 2)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (workload(QuotaReserved="True", Admitted="False"), "quota is reserved, and admission checks are not done"),
        (
            workload(assigned(2, "gone"), QuotaReserved="True", Admitted="True"),
            "the ResourceFlavor gone does not exist",
        ),
        (
            {"metadata": {}, "status": {"conditions": 3}},
            "its Workload cannot be read: status.conditions: expects a list, not 3",
        ),
    ],
)
def test_a_workload_that_is_not_fit_to_start_waits(found: dict[str, Any], message: str) -> None:
    assert read_admission(found, FLAVORS) == KueueAdmission(AdmissionPhase.WAITING, message)


def test_an_evicted_job_has_the_reason_of_kueue() -> None:
    found = read_admission(workload(assigned(2), QuotaReserved="True", Admitted="True", Evicted="True"), FLAVORS)
    assert found == KueueAdmission(AdmissionPhase.EVICTED, "because of Evicted")


@pytest.mark.parametrize(
    ("facts", "found", "admission", "expected"),
    [
        (JobFacts(), None, WAITING, WorkloadAction.CREATE),
        (JobFacts(is_suspended=True), None, WAITING, WorkloadAction.NONE),
        (JobFacts(is_early=True), None, WAITING, WorkloadAction.NONE),
        (JobFacts(is_early=True), workload(), ADMITTED, WorkloadAction.DELETE),
        (JobFacts(has_ended=True), None, WAITING, WorkloadAction.NONE),
        (JobFacts(holds_nodes=True), workload(Evicted="True"), EVICTED, WorkloadAction.NONE),
        (JobFacts(), workload(Evicted="True"), EVICTED, WorkloadAction.RELEASE),
        (JobFacts(holds_nodes=True, is_running=True), workload(), ADMITTED, WorkloadAction.READY),
        (JobFacts(holds_nodes=True, is_running=True), workload(PodsReady="True"), ADMITTED, WorkloadAction.NONE),
        (JobFacts(has_ended=True), workload(), ADMITTED, WorkloadAction.FINISH),
        (JobFacts(has_ended=True), workload(Finished="True"), ADMITTED, WorkloadAction.NONE),
        (JobFacts(is_suspended=True), workload(), ADMITTED, WorkloadAction.DELETE),
    ],
)
def test_the_next_write_follows_from_the_job_and_its_admission(
    facts: JobFacts, found: dict[str, Any] | None, admission: KueueAdmission, expected: WorkloadAction
) -> None:
    assert next_action(facts, found, admission, is_outdated=False) is expected


def test_a_job_that_windlass_refuses_holds_no_quota() -> None:
    refused = JobFacts(is_refused=True)
    assert next_action(refused, None, WAITING, is_outdated=False) is WorkloadAction.NONE
    assert next_action(refused, workload(), ADMITTED, is_outdated=False) is WorkloadAction.DELETE


def test_only_a_job_that_waits_gets_a_workload_of_its_changed_pods() -> None:
    assert next_action(JobFacts(), workload(), WAITING, is_outdated=True) is WorkloadAction.DELETE
    assert next_action(JobFacts(), workload(), ADMITTED, is_outdated=True) is WorkloadAction.NONE


def test_a_job_that_has_stopped_gives_its_quota_back() -> None:
    found = workload(assigned(2), QuotaReserved="True", Admitted="True", Evicted="True")
    after = status_after(WorkloadAction.RELEASE, found, JobFacts(), AT)
    conditions = conditions_by_type({"status": after})
    assert after["admission"] is None
    assert {name: each["status"] for name, each in conditions.items()} == {
        "QuotaReserved": "False",
        "Admitted": "False",
        "Evicted": "True",
        "Requeued": "True",
    }
    assert conditions["QuotaReserved"]["message"] == "because of Evicted"


@pytest.mark.parametrize(("has_succeeded", "reason"), [(True, "Succeeded"), (False, "Failed")])
def test_the_end_of_a_job_keeps_the_other_conditions(has_succeeded: bool, reason: str) -> None:
    facts = JobFacts(has_ended=True, has_succeeded=has_succeeded)
    after = status_after(WorkloadAction.FINISH, workload(Admitted="True"), facts, AT)
    assert [(each["type"], each["reason"]) for each in after["conditions"]] == [
        ("Admitted", "Preempted"),
        ("Finished", reason),
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_no_status_of_another_writer_raises(conditions: Any, admission: Any) -> None:
    found = {"metadata": {}, "status": {"conditions": conditions, "admission": admission}}
    assert read_admission(found, FLAVORS).phase is not AdmissionPhase.ADMITTED
    next_action(JobFacts(), found, WAITING, is_outdated=False)
