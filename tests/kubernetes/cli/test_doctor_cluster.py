"""`windlass doctor cluster` against a real API server: what it finds, and what a caller with few rights is told."""

from __future__ import annotations

import asyncio
import json

import pytest
from planes.tidy import clear

from windlass.cli.entry import main
from windlass.controlplane.api import ApiError

pytestmark = pytest.mark.apiserver
NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GPU_LABEL = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


@pytest.fixture
def on_cluster(apiserver):
    """Runs a coroutine with a client of the API server, and removes what tests left before and after."""

    def run(story):
        async def connected():
            async with apiserver.api() as client:
                return await story(client)

        return asyncio.run(connected())

    run(clear)
    yield run
    run(clear)


@pytest.fixture
def doctor(apiserver, capfd):
    def run(*words, kubeconfig=None):
        code = main(
            ["doctor", "cluster", "-o", "json", "--kubeconfig", str(kubeconfig or apiserver.kubeconfig), *words]
        )
        report = json.loads(capfd.readouterr().out)
        return code, {step["step"]: step for step in report["steps"]}

    return run


async def add_node(api, name, gpus, offered):
    await api.post(NODES, {"metadata": {"name": name, "labels": GPU_LABEL}})
    amounts = {"capacity": {"nvidia.com/gpu": str(gpus)}, "allocatable": {"nvidia.com/gpu": str(offered)}}
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
    await api.patch(f"{NODES}/{name}/status", {"status": {**amounts, "conditions": [condition]}})


async def add_pod(api, name, gpus):
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}}
    containers = [{"name": "main", "image": "image", "resources": resources}]
    await api.post(PODS, {"metadata": {"name": name}, "spec": {"containers": containers}})


def test_faults_of_a_cluster_are_found(on_cluster, doctor):
    async def story(api):
        await add_node(api, "good", 8, 8)
        await add_node(api, "bad", 8, 6)
        await add_pod(api, "too-large", 16)

    on_cluster(story)
    code, steps = doctor()
    pool = "NVIDIA-H100-80GB-HBM3"
    assert code == 1
    assert steps[f"pool.allocatable:{pool}"]["evidence"] == ["bad: nvidia.com/gpu 6 of 8"]
    assert steps[f"pool.ready:{pool}"]["state"] == "ok"
    assert steps["queue.demand:gpu"]["text"].startswith("a waiting pod requests 16, the largest node has 8")
    assert steps["access.kinds"]["state"] == "ok"


async def grant(api, user, rules):
    """Gives a user a Role in the namespace default, in place of one of an earlier test."""
    role = {"metadata": {"name": user}, "rules": rules}
    binding = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
    for path, manifest in (("roles", role), ("rolebindings", binding)):
        try:
            await api.post(f"{RBAC}/namespaces/default/{path}", manifest)
        except ApiError as error:
            if error.status != 409:
                raise


def test_a_caller_with_rights_in_one_namespace_is_told_what_is_hidden(on_cluster, apiserver, doctor):
    async def story(api):
        await add_pod(api, "waits", 1)
        await grant(api, "doctor-narrow", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}])

    on_cluster(story)
    code, steps = doctor(kubeconfig=apiserver.user("doctor-narrow"))
    assert code == 0
    assert "nodes is forbidden" in steps["access.nodes"]["text"]
    assert steps["access.namespaces"]["text"] == "only objects of the namespace default could be listed"
    assert steps["pods.stuck"]["text"] == "none of 1 pods in default"
    assert steps["pool.nodes"]["state"] == "not visible"


def test_a_caller_without_any_rights_gets_a_report_and_no_error(apiserver, doctor):
    code, steps = doctor(kubeconfig=apiserver.user("doctor-nobody"))
    assert code == 0
    assert {step["state"] for step in steps.values()} <= {"not visible", "not there"}
