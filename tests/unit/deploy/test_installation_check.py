"""Findings of an installation check about other operators and about admission policies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.cluster import other_operators
from windlass.deploy.install import installation_check
from windlass.deploy.install.findings import Severity
from windlass.deploy.install.resources import resource_of
from windlass.deploy.job_policies import job_policies
from windlass.deploy.labels import labels_of
from windlass.deploy.pod_policy import pod_policies


class Api:
    """An API server with the deployment of an MPI operator, which answers no access review."""

    async def list(self, _resource: object) -> list[dict[str, Any]]:
        pod = {"containers": [{"name": "manager", "image": "mpioperator/mpi-operator:0.8.0"}]}
        about = {"namespace": "kubeflow", "name": "mpi-operator"}
        return [{"metadata": about, "spec": {"replicas": 1, "template": {"spec": pod}}}]

    async def request(self, *_: object, **__: object) -> bytes:
        await asyncio.Event().wait()
        return b""


def test_a_search_for_other_operators_that_does_not_end_is_a_warning_with_its_meaning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(other_operators, "DEADLINE_S", 0.01)
    api: Any = Api()
    (finding,) = asyncio.run(installation_check._others(api, "windlass"))
    assert (finding.about, finding.severity) == ("other operators", Severity.WARNING)
    assert finding.message == (
        "the search for them did not end in 10 s: one may serve MPIJob, and a replica that has just started holds "
        "new jobs of these kinds until its own search ends"
    )
    assert finding.fix == "check again when the API server has less to do"


class Objects:
    """An API server with these objects."""

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self.objects = {(resource_of(each), each["metadata"]["name"]): each for each in objects}

    async def get(self, resource: Resource, _namespace: str | None, name: str, **_: object) -> dict[str, Any]:
        if (resource, name) not in self.objects:
            raise ApiError(404, "NotFound")
        return self.objects[resource, name]


def test_a_policy_for_pods_that_is_missing_or_differs_is_a_warning() -> None:
    installed = [*job_policies(), *pod_policies()]
    other = {**installed[-1], "spec": {"policyName": "windlass-pods", "validationActions": ["Audit"]}}
    for objects, severity in ((installed, "OK"), (installed[:-1], "WARNING"), ([*installed[:-1], other], "WARNING")):
        api: Any = Objects(objects)
        [finding] = asyncio.run(installation_check._admission(api, "windlass"))
        assert finding.severity is Severity[severity], finding
        assert "windlass-pods" in finding.message


def node(name: str, ready: str) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}]
    return {"metadata": {"name": name}, "status": {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": conditions}}


@pytest.mark.parametrize(
    ("ready", "severity", "message"),
    [
        ("True True", "ok", "2 nodes with 16 GPUs"),
        ("True False", "warning", "2 nodes with 16 GPUs; 1 of them not ready and without new pods: n1"),
        ("Unknown False", "error", "2 nodes with 16 GPUs; 2 of them not ready and without new pods: n0, n1"),
        (
            "True" + " Unknown" * 7,
            "warning",
            "7 of them not ready and without new pods: n1, n2, n3, n4, n5, ...",
        ),
    ],
)
def test_nodes_that_are_not_ready_are_named(ready: str, severity: str, message: str) -> None:
    class Nodes:
        async def list(self, _resource: object) -> list[dict[str, Any]]:
            return [node(f"n{index}", status) for index, status in enumerate(ready.split())]

    api: Any = Nodes()
    [finding] = asyncio.run(installation_check._nodes(api, "windlass"))
    assert (finding.about, finding.severity.value) == ("nodes", severity)
    assert message in finding.message


@pytest.mark.parametrize(
    ("served", "is_foreign", "message", "fix"),
    [
        ("v2beta1", True, "lacks v1 and is of another operator", "--take-over, once that operator is gone"),
        ("v1 v2beta1", True, "is of another operator and has its rules", "then windlass operator install --take-over"),
        ("v2beta1", False, "lacks v1", "windlass operator install"),
    ],
)
def test_a_kind_of_another_operator_is_replaced_by_a_takeover_only(
    served: str, is_foreign: bool, message: str, fix: str
) -> None:
    there = {
        "metadata": {"labels": {} if is_foreign else labels_of("crd")},
        "spec": {"versions": [{"name": name, "served": True} for name in served.split()]},
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }
    finding = installation_check._kind("mpijobs.kubeflow.org", ["v1", "v2beta1"], there)
    assert finding is not None
    assert finding.message == f"mpijobs.kubeflow.org {message}"
    assert finding.fix.endswith(fix)
