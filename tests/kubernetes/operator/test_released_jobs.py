"""Jobs whose objects leave the cluster in an unusual way: orphaned, with their namespace, or with their kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kubernetes_host import JOBS, namespaced
from operator_place import OperatorPlace, leading

import strays
from windlass.backends.kubernetes import watches
from windlass.backends.kubernetes.client import reflector
from windlass.backends.kubernetes.client import watch as reflector_watch
from windlass.backends.kubernetes.client.api_errors import Unreachable
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import Resource
from windlass.backends.kubernetes.served_kinds import KindRemoval
from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.cluster import ControlPlane, add_default_account
from windlass.controlplane.fake_kubelet import FakeKubelets
from windlass.controlplane.fake_pod import annotated

PODS = "/api/v1/pods"
PYTORCHJOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
ORPHAN = {"propagationPolicy": "Orphan"}
pytestmark = pytest.mark.apiserver
Tell = Callable[[Callable[[OperatorPlace], Awaitable[None]]], None]


@pytest.fixture
def tell(apiserver: ControlPlane, tmp_path: Path) -> Tell:
    """Run a coroutine with a leading operator whose pods run until they are ended."""

    def run(scenario: Callable[[OperatorPlace], Awaitable[None]]) -> None:
        async def run_scenario() -> None:
            async with (
                asyncio.timeout(strays.TIMEOUT_S * 4),
                leading(apiserver, tmp_path, script_of=annotated) as place,
            ):
                await scenario(place)

        asyncio.run(run_scenario())

    return run


def training_job(name: str, namespace: str = "default", **more: Any) -> dict[str, Any]:
    spec = {"image": "example.com/job:1", "command": ["run"], "nodes": 2, "gpus": 1, "procs": 1}
    about = {"name": name, "namespace": namespace, **more}
    return {"apiVersion": "windlass.dev/v1alpha1", "kind": "TrainingJob", "metadata": about, "spec": spec}


def pytorch_job(name: str) -> dict[str, Any]:
    container = {"name": "pytorch", "image": "example.com/job:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    replica = {"replicas": 2, "restartPolicy": "OnFailure", "template": {"spec": {"containers": [container]}}}
    about = {"name": name, "namespace": "default"}
    spec = {"pytorchReplicaSpecs": {"Worker": replica}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": about, "spec": spec}


def xgboost_job(name: str) -> dict[str, Any]:
    container = {"name": "xgboost", "image": "example.com/job:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    replica = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    spec = {"xgbReplicaSpecs": {"Master": replica, "Worker": replica}}
    about = {"name": name, "namespace": "default"}
    return {"apiVersion": "kubeflow.org/v1", "kind": "XGBoostJob", "metadata": about, "spec": spec}


async def until_gone(api: Api, path: str) -> None:
    async with asyncio.timeout(strays.TIMEOUT_S):
        while await exists(api, path):  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.05)


async def exists(api: Api, path: str) -> bool:
    try:
        await api.get(path)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


async def until_unknown(place: OperatorPlace, job_id: str) -> None:
    """Wait until the operator has released a job."""
    async with asyncio.timeout(strays.TIMEOUT_S):
        while place.world.jobs.get(job_id) is not None:  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.05)


async def until_free(place: OperatorPlace, gpus: int) -> None:
    """Wait until the operator counts so many GPUs as free for its jobs."""
    async with asyncio.timeout(strays.TIMEOUT_S):
        while free_gpus(place) != gpus:  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.05)


def free_gpus(place: OperatorPlace) -> int:
    """GPUs of the nodes that no foreign pod uses, less those that jobs hold."""
    return unused_gpus(place) - sum(2 for gang in place.world.jobs if gang.run is not None and not gang.run.gone)


def unused_gpus(place: OperatorPlace) -> int:
    return sum(node.capacity.get("gpu", 0) for node in place.world.cluster.picture.nodes())


async def running_pods(place: OperatorPlace) -> set[str]:
    pods = (await place.api.get(PODS))["items"]
    return {pod["metadata"]["uid"] for pod in pods if pod["status"].get("phase") == "Running"}


async def collect_orphans(api: Api, path: str) -> None:
    """Carries out the deletion of an orphaned object like the garbage collector of Kubernetes.

    Source: k8s.io/kubernetes pkg/controller/garbagecollector, orphanDependents and removeFinalizer.
    """
    for pod in (await api.get(PODS))["items"]:
        await api.patch(
            f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}", {"metadata": {"ownerReferences": None}}
        )
    await api.patch(path, {"metadata": {"finalizers": None}})
    await until_gone(api, path)


KINDS = {
    "TrainingJob": (namespaced(JOBS), training_job("digits"), "default/digits"),
    "PyTorchJob": (PYTORCHJOBS, pytorch_job("digits"), "default/pytorchjob/digits"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_orphaned_job_is_released_and_its_pods_live_on(tell: Tell, kind: str) -> None:
    path, manifest, job_id = KINDS[kind]

    async def scenario(place: OperatorPlace) -> None:
        await place.api.post(path, manifest)
        await place.until(f"/v1/jobs/{job_id}", lambda job: job["phase"] == "Running")
        before = await running_pods(place)
        assert len(before) == 2
        await place.api.delete(f"{path}/digits", ORPHAN)
        await until_unknown(place, job_id)
        await collect_orphans(place.api, f"{path}/digits")
        assert await running_pods(place) == before
        await until_free(place, 2)
        # an object of the same name is a new job, which waits for the names of its pods
        await place.api.post(path, manifest)
        await place.until(f"/v1/jobs/{job_id}", lambda job: job["phase"] in ("Queued", "Admitted"))
        for pod in (await place.api.get(PODS, fieldSelector="status.phase=Running"))["items"]:
            await place.kubelets.end("default", pod["metadata"]["name"])
            await place.api.delete(f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}", gracePeriodSeconds=0)
        await place.until(f"/v1/jobs/{job_id}", lambda job: job["phase"] == "Running")

    tell(scenario)


def test_a_pod_that_loses_its_owner_leaves_its_gang(tell: Tell) -> None:
    async def scenario(place: OperatorPlace) -> None:
        path, manifest, job_id = KINDS["TrainingJob"]
        await place.api.post(path, manifest)
        await place.until(f"/v1/jobs/{job_id}", lambda job: job["phase"] == "Running")
        pod = "/api/v1/namespaces/default/pods/digits-worker-1"
        await place.api.patch(pod, {"metadata": {"ownerReferences": None}})
        await place.until(f"/v1/jobs/{job_id}", lambda job: job["attempts"] > 1 or job["phase"] != "Running")
        released = await place.api.get(pod)
        assert "deletionTimestamp" not in released["metadata"]
        await place.api.delete(f"{path}/digits")
        await until_unknown(place, job_id)
        await until_free(place, 3)

    tell(scenario)


def test_an_object_that_is_created_again_at_once_is_a_new_job(tell: Tell) -> None:
    async def scenario(place: OperatorPlace) -> None:
        path, manifest, job_id = KINDS["TrainingJob"]
        await place.api.post(path, manifest)
        await place.until(f"/v1/jobs/{job_id}", lambda job: job["phase"] == "Running")
        before = await running_pods(place)
        await place.api.delete(f"{path}/digits", ORPHAN)
        await collect_orphans(place.api, f"{path}/digits")
        await place.api.post(path, manifest)
        assert await running_pods(place) == before
        job = await place.until(f"/v1/jobs/{job_id}", lambda job: job["number"] > 1)
        assert job["phase"] != "Running"
        async with asyncio.timeout(strays.TIMEOUT_S):
            while unused_gpus(place) != 2:  # noqa: ASYNC110 - polled
                await asyncio.sleep(0.05)
        assert await running_pods(place) == before

    tell(scenario)


def test_a_job_whose_kind_is_removed_gives_its_nodes_back(tell: Tell) -> None:
    async def scenario(place: OperatorPlace) -> None:
        definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/xgboostjobs.kubeflow.org"
        path = "/apis/kubeflow.org/v1/namespaces/default/xgboostjobs"
        await place.api.post(path, xgboost_job("boost"))
        await place.until("/v1/jobs/default/xgboostjob/boost", lambda job: job["phase"] == "Running")
        await place.api.delete(definition)
        await until_unknown(place, "default/xgboostjob/boost")
        await until_free(place, 4)
        assert await running_pods(place) == set()
        await until_gone(place.api, definition)

    tell(scenario)


def test_a_job_whose_kind_is_removed_while_its_watch_is_broken_gives_its_nodes_back(
    tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = asyncio.Event()

    async def breaking_watch(
        connection: Connection, kind: Resource, *more: Any
    ) -> AsyncGenerator[list[reflector_watch.Event], None]:
        async for batch in reflector_watch.watch(connection, kind, *more):
            if broken.is_set() and kind.plural == "xgboostjobs":
                raise Unreachable("the connection broke")
            yield batch

    monkeypatch.setattr(reflector, "watch", breaking_watch)
    monkeypatch.setattr(watches, "KindRemoval", partial(KindRemoval, after_s=0.0))

    async def scenario(place: OperatorPlace) -> None:
        definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/xgboostjobs.kubeflow.org"
        path = "/apis/kubeflow.org/v1/namespaces/default/xgboostjobs"
        await place.api.post(path, xgboost_job("unseen"))
        await place.until("/v1/jobs/default/xgboostjob/unseen", lambda job: job["phase"] == "Running")
        broken.set()
        await place.api.delete(definition)
        await until_gone(place.api, definition)
        await until_unknown(place, "default/xgboostjob/unseen")
        await until_free(place, 4)
        assert await running_pods(place) == set()

    tell(scenario)


def test_the_pods_of_a_kind_that_was_removed_while_no_operator_ran_are_no_gang(
    apiserver: ControlPlane, tmp_path: Path
) -> None:
    async def scenario() -> None:
        definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/xgboostjobs.kubeflow.org"
        path = "/apis/kubeflow.org/v1/namespaces/default/xgboostjobs"
        names = [f"left-{role}-0" for role in ("master", "worker")]

        async def leave_pods(api: Api, kubelets: FakeKubelets) -> None:
            job = await api.post(path, xgboost_job("left"))
            owner = {"apiVersion": "kubeflow.org/v1", "kind": "XGBoostJob", "name": "left", "controller": True}
            for name, node in zip(names, ("n1", ""), strict=True):
                await api.post("/api/v1/namespaces/default/pods", left_pod(name, node, {**owner, **uid_of(job)}))
            await kubelets.running("default", names[0])
            await api.delete(definition)
            await until_gone(api, definition)

        async with (
            asyncio.timeout(strays.TIMEOUT_S * 4),
            leading(apiserver, tmp_path, script_of=annotated, prepare=leave_pods) as place,
        ):
            await until_free(place, 3)
            assert list(place.world.jobs) == []
            pods = {each["metadata"]["name"]: each for each in (await place.api.get(PODS))["items"]}
            assert (pods[names[0]]["status"]["phase"], pods[names[1]]["spec"].get("nodeName")) == ("Running", None)

    asyncio.run(scenario())


def uid_of(manifest: dict[str, Any]) -> dict[str, str]:
    return {"uid": manifest["metadata"]["uid"]}


def left_pod(name: str, node: str, owner: dict[str, Any]) -> dict[str, Any]:
    """A pod that an operator has made for a job."""
    container = {"name": "xgboost", "image": "example.com/job:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    spec = {"schedulerName": "windlass", "containers": [container], **({"nodeName": node} if node else {})}
    about = {"name": name, "ownerReferences": [owner], "labels": {"windlass.dev/generation": "1"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


def test_a_job_with_a_finalizer_gives_its_nodes_back_when_its_namespace_is_deleted(tell: Tell) -> None:
    async def scenario(place: OperatorPlace) -> None:
        await place.api.post("/api/v1/namespaces", {"metadata": {"name": "leaving"}})
        await add_default_account(place.api, "leaving")
        path, pods = "/apis/windlass.dev/v1alpha1/namespaces/leaving/trainingjobs", "/api/v1/namespaces/leaving/pods"
        await place.api.post(path, training_job("digits", "leaving", finalizers=["example.com/kept"]))
        await place.until("/v1/jobs/leaving/digits", lambda job: job["phase"] == "Running")
        # like the namespace controller, which deletes all objects of each kind, pods first
        await place.api.delete("/api/v1/namespaces/leaving")
        await place.api.delete(pods, gracePeriodSeconds=1)
        await place.api.delete(path)
        await until_free(place, 4)
        await place.until("/v1/jobs/leaving/digits", lambda job: job["phase"] == "Failed")
        await place.api.patch(f"{path}/digits", {"metadata": {"finalizers": None}})
        await until_unknown(place, "leaving/digits")

    tell(scenario)
