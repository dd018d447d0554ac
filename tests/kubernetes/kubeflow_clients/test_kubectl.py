"""kubectl against the operator, with a PyTorchJob: the daily verbs of a user of Kubeflow."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator

import pytest
from kubeflow_operators.kinds import KINDS, base

from kubeflow_clients.user_cluster import UserCluster, log_of, until
from windlass.controlplane.build import find

PYTORCH = KINDS[0]
Kubectl = Callable[..., str]


@pytest.fixture
def kubectl(cluster: UserCluster) -> Kubectl:
    """Runs kubectl to its end. Returns what it prints; raises CalledProcessError with what it complains of."""

    def run(*words: str, stdin: str | None = None) -> str:
        command = [find("kubectl"), "--kubeconfig", cluster.plane.kubeconfig, *words]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout

    return run


def manifest(name: str) -> str:
    return json.dumps({**base(PYTORCH), "metadata": {"name": name}})


def pods_of(kubectl: Kubectl, name: str) -> set[str]:
    label = f"training.kubeflow.org/job-name={name}"
    return {each.partition("/")[2] for each in kubectl("get", "pods", "-l", label, "-o", "name").split()}


@pytest.fixture
def job(kubectl: Kubectl, request: pytest.FixtureRequest) -> Iterator[str]:
    """A running job, deleted at the end of the test."""
    name = request.function.__name__.split("_")[1][:12]
    kubectl("apply", "-f", "-", stdin=manifest(name))
    try:
        kubectl("wait", f"ptj/{name}", "--for=condition=Running", "--timeout=60s")
        yield name
    finally:
        kubectl("delete", "ptj", name, "--ignore-not-found")


def test_get_shows_the_state_of_a_job(kubectl, job):
    head, row = (line.split() for line in kubectl("get", "pytorchjobs", job).splitlines())
    assert (head, row[:2]) == (["NAME", "STATE", "AGE"], [job, "Running"])
    conditions = kubectl("get", "ptj", job, "-o", "jsonpath={.status.conditions[?(@.status=='True')].type}").split()
    assert {"Created", "Running"} <= set(conditions)


def test_describe_shows_the_conditions_and_the_events(kubectl, job):
    until(lambda: "PyTorchJobRunning" in kubectl("describe", "pytorchjob", job).partition("Events:")[2])
    assert "Replica Statuses:" in kubectl("describe", "pytorchjob", job)


def test_logs_are_read_by_pod_and_by_label(kubectl, job):
    assert kubectl("logs", f"{job}-master-0") == log_of(f"{job}-master-0")
    label = f"training.kubeflow.org/job-name={job},training.kubeflow.org/replica-type=worker"
    both = log_of(f"{job}-worker-0") + log_of(f"{job}-worker-1")
    assert sorted(kubectl("logs", "-l", label).splitlines()) == both.splitlines()  # the pods are read side by side


def test_wait_ends_with_the_condition(kubectl, job, cluster):
    cluster.end(f"{job}-master-0")
    kubectl("wait", f"pytorchjob/{job}", "--for=condition=Succeeded", "--timeout=60s")


def test_patch_suspends_and_resumes_a_job(kubectl, job):
    for suspend, condition in ((True, "Suspended"), (False, "Running")):
        body = json.dumps({"spec": {"runPolicy": {"suspend": suspend}}})
        kubectl("patch", "ptj", job, "--type=merge", "-p", body)
        kubectl("wait", f"ptj/{job}", f"--for=condition={condition}", "--timeout=60s")


def test_scale_adds_and_removes_workers(kubectl, job):
    lead, workers = f"{job}-master-0", [f"{job}-worker-{index}" for index in range(3)]
    for count in (3, 1):
        kubectl("scale", "ptj", job, f"--replicas={count}")
        until(lambda count=count: pods_of(kubectl, job) == {lead, *workers[:count]})


def test_delete_removes_the_pods(kubectl, job):
    kubectl("delete", "ptj", job)
    until(lambda: not pods_of(kubectl, job))


def test_orphaned_pods_outlive_the_job(kubectl, job):
    """The test does the part of the garbage collector: it removes the owner of each pod, and then its finalizer."""
    before = pods_of(kubectl, job)
    kubectl("delete", "ptj", job, "--cascade=orphan", "--wait=false")
    for pod in before:
        kubectl("patch", "pod", pod, "--type=merge", "-p", '{"metadata":{"ownerReferences":null}}')
    kubectl("patch", "ptj", job, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    until(lambda: not kubectl("get", "ptj", job, "--ignore-not-found"))
    assert pods_of(kubectl, job) == before
    assert kubectl("get", "pods", *before, "-o", "jsonpath={.items[*].status.phase}").split() == ["Running"] * len(
        before
    )
    kubectl("delete", "pods", *before, "--grace-period=0", "--force")


@pytest.fixture
def uncordoned(kubectl: Kubectl) -> Iterator[None]:
    """Uncordon the node at the end of the test, and delete the job `other`."""
    yield
    kubectl("delete", "ptj", "other", "--ignore-not-found")
    kubectl("uncordon", "n1")


@pytest.mark.usefixtures("uncordoned")
def test_cordon_keeps_new_pods_off_a_node(kubectl, job):
    kubectl("cordon", "n1")
    kubectl("apply", "-f", "-", stdin=manifest("other"))
    kubectl("wait", "ptj/other", "--for=condition=Running", "--timeout=60s")
    label = "training.kubeflow.org/job-name=other"
    nodes = kubectl("get", "pods", "-l", label, "-o", "jsonpath={.items[*].spec.nodeName}").split()
    assert set(nodes) == {"n2"}
    kubectl("wait", f"ptj/{job}", "--for=condition=Running", "--timeout=1s")


def test_explain_describes_a_field(kubectl, cluster):
    assert "FIELD: cleanPodPolicy" in kubectl("explain", "pytorchjob.spec.runPolicy.cleanPodPolicy")
