"""Running jobs that are scaled by the scale subresource, as `kubectl scale` and autoscalers do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from operator_place import OperatorPlace, leading
from planes.tidy import clear

import strays
from windlass.controlplane.api import ApiError
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_pod import annotated

JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
MPI_JOBS = "/apis/kubeflow.org/v1/namespaces/default/mpijobs"
PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
AUTOSCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
pytestmark = pytest.mark.apiserver


def replica(count: int, container: str) -> dict[str, Any]:
    limits = {"cpu": 1, "nvidia.com/gpu": 1}
    pod = {"containers": [{"name": container, "image": "digits:1", "resources": {"limits": limits}}]}
    return {"replicas": count, "template": {"spec": pod}}


def elastic_job() -> dict[str, Any]:
    usage = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }
    policy = {"minReplicas": 1, "maxReplicas": 99, "rdzvBackend": "c10d", "metrics": [usage]}
    spec = {"elasticPolicy": policy, "pytorchReplicaSpecs": {"Worker": replica(1, "pytorch")}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "grow"}, "spec": spec}


def short_job() -> dict[str, Any]:
    """A job with fewer pods than it needs at least."""
    policy = {"schedulingPolicy": {"minAvailable": 2}}
    spec = {"runPolicy": policy, "pytorchReplicaSpecs": {"Worker": replica(1, "pytorch")}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "short"}, "spec": spec}


def mpi_job() -> dict[str, Any]:
    replicas = {"Launcher": replica(1, "mpi"), "Worker": replica(1, "mpi")}
    spec = {"slotsPerWorker": 1, "mpiReplicaSpecs": replicas}
    return {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "metadata": {"name": "ring"}, "spec": spec}


async def until(place: OperatorPlace, path: str, holds: Callable[[Any], object]) -> Any:
    async with asyncio.timeout(strays.TIMEOUT_S):
        while True:
            if holds(found := await place.api.get(path)):
                return found
            await asyncio.sleep(0.1)


def running(listed: Any) -> dict[str, str]:
    """The uids of the pods that run, by name."""
    return {
        each["metadata"]["name"]: each["metadata"]["uid"]
        for each in listed["items"]
        if each["status"].get("phase") == "Running" and "deletionTimestamp" not in each["metadata"]
    }


def held(job: Any) -> str:
    """The reason and message for which a part of the spec is not applied."""
    found = (each for each in job["status"]["conditions"] if each["type"] == "SpecApplied")
    return next((f"{each['status']} {each['reason']}: {each['message']}" for each in found), "")


def workers(*numbers: int) -> set[str]:
    return {f"grow-worker-{number}" for number in numbers}


@pytest.fixture
def tell(apiserver: ControlPlane, tmp_path: Path) -> Callable[[Callable[[OperatorPlace], Awaitable[None]]], None]:
    """Run a coroutine with an operator whose pods run until they are deleted."""

    def run_story(story: Callable[[OperatorPlace], Awaitable[None]]) -> None:
        async def told() -> None:
            async with leading(apiserver, tmp_path, script_of=annotated, reasons=True) as place:
                await story(place)

        asyncio.run(told())

    return run_story


def test_an_elastic_job_follows_its_scale(tell):
    async def scale(place: OperatorPlace, replicas: int) -> None:
        await place.api.patch(f"{JOBS}/grow/scale", {"spec": {"replicas": replicas}})

    async def story(place: OperatorPlace) -> None:
        try:
            job = await place.api.post(JOBS, elastic_job())
            first = running(await until(place, PODS, lambda listed: running(listed).keys() == workers(0)))
            [autoscaler] = (await until(place, AUTOSCALERS, lambda listed: listed["items"]))["items"]
            assert [each["uid"] for each in autoscaler["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]
            assert autoscaler["spec"]["scaleTargetRef"]["name"] == "grow"

            await scale(place, 3)
            grown = running(await until(place, PODS, lambda listed: running(listed).keys() == workers(0, 1, 2)))
            assert grown.items() > first.items()
            found = await until(place, f"{JOBS}/grow/scale", lambda found: found["status"]["replicas"] == 3)
            assert "training.kubeflow.org/replica-type=worker" in found["status"]["selector"]
            assert held(await place.api.get(f"{JOBS}/grow")) == ""

            await scale(place, 99)
            short = held(await until(place, f"{JOBS}/grow", held))
            assert short.startswith("False ")
            assert "of 99 replicas of worker" in short
            assert "gpu" in short
            why = await place.get("/v1/jobs/pytorchjob/grow/why")
            assert "gpu" in why["missing"]["message"]
            assert running(await place.api.get(PODS)).items() >= grown.items()

            await scale(place, 2)
            kept = await until(place, PODS, lambda listed: running(listed).keys() == workers(0, 1))
            assert running(kept).items() <= grown.items()
            await until(place, f"{JOBS}/grow", lambda job: not held(job))
            await until(place, SERVICES, lambda listed: "grow-worker-2" not in str(listed))
            assert (await place.phase("pytorchjob/grow", "Running"))["attempts"] == 1
        finally:
            await clear(place.api, JOBS, PODS, SERVICES, AUTOSCALERS)

    tell(story)


def test_a_job_with_fewer_pods_than_min_available_runs_once_it_is_scaled(tell):
    async def story(place: OperatorPlace) -> None:
        try:
            await place.api.post(JOBS, short_job())
            await until(place, f"{JOBS}/short", lambda job: "minAvailable is 2" in str(job.get("status")))
            assert running(await place.api.get(PODS)) == {}
            await place.api.patch(f"{JOBS}/short/scale", {"spec": {"replicas": 2}})
            await until(place, PODS, lambda listed: running(listed).keys() == {"short-worker-0", "short-worker-1"})
        finally:
            await clear(place.api, JOBS, PODS, SERVICES)

    tell(story)


def test_the_launcher_of_an_mpijob_v1_may_exec_into_a_worker_that_is_added(tell):
    def ring(*numbers: int) -> set[str]:
        return {"ring-launcher", *(f"ring-worker-{number}" for number in numbers)}

    async def story(place: OperatorPlace) -> None:
        try:
            await place.api.post(MPI_JOBS, mpi_job())
            await until(place, PODS, lambda listed: running(listed).keys() == ring(0))
            await place.api.patch(f"{MPI_JOBS}/ring", {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 2}}}})
            await until(place, PODS, lambda listed: running(listed).keys() == ring(0, 1))
            await until(place, f"{ROLES}/ring-launcher", lambda role: "ring-worker-1" in str(role["rules"]))
        finally:
            await clear(place.api, MPI_JOBS, PODS)
            with contextlib.suppress(ApiError):  # not made yet
                await place.api.delete(f"{ROLES}/ring-launcher")  # of all the roles there: others are the operator's

    tell(story)
