"""Pods of a pending job: they exist while it is pending, and are deleted afterwards."""

from __future__ import annotations

import asyncio

import pytest
from kubernetes_host import JOBS, namespaced
from operator_place import OperatorPlace

import strays
from windlass.jobs.kubernetes.labels import CANCEL

PODS = "/api/v1/pods"
pytestmark = pytest.mark.apiserver


async def pods_of(place: OperatorPlace, job: str, count: int) -> list[dict]:
    """The job's pods, once their number is this."""
    async with asyncio.timeout(strays.TIMEOUT_S):
        while True:
            listed = await place.api.get(namespaced(PODS), labelSelector=f"windlass.dev/job-name={job}")
            if len(listed["items"]) == count:
                return listed["items"]
            await asyncio.sleep(0.1)


async def change(place: OperatorPlace, job: str, patch: dict) -> None:
    await place.api.patch(f"{namespaced(JOBS)}/{job}", patch)


def test_pods_of_a_pending_job_exist_until_it_is_cancelled(tell):
    async def story(place: OperatorPlace) -> None:
        await place.submit("big", gpus=2, replicas=2)
        await place.phase("big", "Running")
        await place.submit("next", replicas=3)
        pods = await pods_of(place, "next", 3)
        assert not any(pod["spec"].get("nodeName") for pod in pods)
        await change(place, "next", {"metadata": {"annotations": {CANCEL: "ada"}}})
        ended = await place.phase("next", "Failed")
        assert "ada" in ended["message"]
        await pods_of(place, "next", 0)

    tell(story)


def test_pods_of_a_suspended_job_are_deleted_and_created_again(tell):
    async def story(place: OperatorPlace) -> None:
        await place.submit("big", gpus=2, replicas=2)
        await place.phase("big", "Running")
        await place.submit("next")
        await pods_of(place, "next", 1)
        await change(place, "next", {"spec": {"suspend": True}})
        await place.phase("next", "Suspended")
        await pods_of(place, "next", 0)
        await change(place, "next", {"spec": {"suspend": False}})
        await pods_of(place, "next", 1)

    tell(story)


def test_a_pending_job_that_shrinks_has_fewer_pods_and_may_start(tell):
    async def story(place: OperatorPlace) -> None:
        await place.submit("big", gpus=2, replicas=1)
        await place.phase("big", "Running")
        await place.submit("next", gpus=2, replicas=2)
        await pods_of(place, "next", 2)
        await change(place, "next", {"spec": {"nodes": 1}})
        await place.phase("next", "Running")
        (pod,) = await pods_of(place, "next", 1)
        world_size = [each["value"] for each in pod["spec"]["containers"][0]["env"] if each["name"] == "WORLD_SIZE"]
        assert world_size in ([], ["1"])

    tell(story)


def test_a_job_whose_pod_name_stays_taken_can_be_cancelled(tell):
    async def story(place: OperatorPlace) -> None:
        about = {"name": "next-worker-0", "finalizers": ["example.com/kept"]}
        spec = {"schedulerName": "another", "containers": [{"name": "main", "image": "example.com/other:1"}]}
        await place.api.post(namespaced(PODS), {"kind": "Pod", "apiVersion": "v1", "metadata": about, "spec": spec})
        await place.api.delete(f"{namespaced(PODS)}/next-worker-0", gracePeriodSeconds=0)
        await place.submit("next")
        await place.phase("next", "Admitted")
        await change(place, "next", {"metadata": {"annotations": {CANCEL: "ada"}}})
        await place.phase("next", "Failed")

    tell(story)


def test_a_deleted_pending_pod_is_created_again(tell):
    async def story(place: OperatorPlace) -> None:
        await place.submit("big", gpus=2, replicas=2)
        await place.phase("big", "Running")
        await place.submit("next", replicas=2)
        first, _ = await pods_of(place, "next", 2)
        await place.api.delete(f"{namespaced(PODS)}/{first['metadata']['name']}", gracePeriodSeconds=0)
        assert first["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in await pods_of(place, "next", 2)}

    tell(story)
