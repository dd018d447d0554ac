"""PyTorchJobs on an API server: what their own operator does with services, and images that cannot be pulled."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from operator_place import OperatorPlace, leading

import strays
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_pod import Script, annotated

JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
SERVICES = "/api/v1/namespaces/default/services"
PODS = "/api/v1/namespaces/default/pods"
pytestmark = pytest.mark.apiserver


def pytorch_job(name: str, script: Script) -> dict[str, Any]:
    pod = {"containers": [{"name": "pytorch", "image": "example.com/digits:1"}]}
    replica = {"replicas": 1, "template": {"metadata": {"annotations": script.annotation()}, "spec": pod}}
    spec = {"runPolicy": {"cleanPodPolicy": "Running"}, "pytorchReplicaSpecs": {"Master": replica, "Worker": replica}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}, "spec": spec}


async def until(place: OperatorPlace, path: str, holds: Callable[[Any], bool]) -> Any:
    async with asyncio.timeout(strays.TIMEOUT_S):
        while True:
            if holds(found := await place.api.get(path)):
                return found
            await asyncio.sleep(0.1)


def names(listed: Any) -> list[str]:
    return sorted(each["metadata"]["name"] for each in listed["items"] if each["metadata"]["name"] != "kubernetes")


@pytest.fixture
def run(apiserver: ControlPlane, tmp_path: Path) -> Callable[[Callable[[OperatorPlace], Awaitable[None]]], None]:
    """Run a coroutine with an operator whose pods do what their annotations say."""

    def run_story(story: Callable[[OperatorPlace], Awaitable[None]]) -> None:
        async def told() -> None:
            async with leading(apiserver, tmp_path, script_of=annotated) as place:
                await story(place)

        asyncio.run(told())

    return run_story


def test_services_go_with_the_pods_of_a_suspended_job_and_come_back(run):
    pair = ["pair-master-0", "pair-worker-0"]

    async def suspend(place: OperatorPlace, *, value: bool) -> None:
        await place.api.patch(f"{JOBS}/pair", {"spec": {"runPolicy": {"suspend": value}}})

    async def story(place: OperatorPlace) -> None:
        await place.api.post(JOBS, pytorch_job("pair", Script()))
        await until(place, SERVICES, lambda listed: names(listed) == pair)
        await place.phase("pytorchjob/pair", "Running")
        await suspend(place, value=True)
        await until(place, SERVICES, lambda listed: not names(listed))
        await suspend(place, value=False)
        await until(place, SERVICES, lambda listed: names(listed) == pair)

    run(story)


def test_an_image_that_cannot_be_pulled_is_named_in_the_job_within_five_seconds(run):
    async def story(place: OperatorPlace) -> None:
        script = Script(image_error="example.com/digits:1: not found")
        await place.api.post(JOBS, pytorch_job("pair", script))

        def told(job: Any) -> bool:
            return any(each["type"] == "ImagesPulled" for each in (job.get("status") or {}).get("conditions", ()))

        await until(place, PODS, lambda pods: "ErrImagePull" in str(pods))
        async with asyncio.timeout(5):
            job = await until(place, f"{JOBS}/pair", told)
        [found] = [each for each in job["status"]["conditions"] if each["type"] == "ImagesPulled"]
        assert re.search(r" of pair-(master|worker)-0\b", found["message"])  # the first that a kubelet reports
        assert "example.com/digits:1: not found" in found["message"]

    run(story)
