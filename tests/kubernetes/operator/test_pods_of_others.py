"""Pods with our scheduler's name that no job of ours has created: how their ends and their waits are shown."""

from __future__ import annotations

from typing import Any

import pytest
from backend_host import Behaviour
from external import other_kinds as kinds
from operator_place import OperatorPlace

from windlass.controlplane.fake_pod import End

pytestmark = pytest.mark.apiserver
NAMESPACE = kinds.NAMESPACE


def running(name: str, **more: Any) -> dict[str, Any]:
    """A pod that runs until the test ends it."""
    pod = kinds.pod(name, **more)
    pod["spec"]["containers"][0]["command"] = [Behaviour.RUN.value]
    return pod


def gang(name: str, count: int, **annotations: str) -> list[dict[str, Any]]:
    labels = {"windlass.dev/gang": name}
    return [running(f"{name}-{rank}", labels=labels, annotations=annotations) for rank in range(count)]


async def make(place: OperatorPlace, pods: list[dict[str, Any]]) -> None:
    for pod in pods:
        await place.api.post(kinds.PODS, pod)


async def of(place: OperatorPlace, word: str, name: str, phase: str) -> Any:
    return await place.until(f"/v1/jobs/{NAMESPACE}/{word}/{name}", lambda job: job["phase"] == phase)


def test_a_pod_that_failed_has_failed_and_one_that_was_deleted_is_cancelled(tell):
    async def story(place: OperatorPlace) -> None:
        await make(place, [running("bad"), running("good"), running("gone")])
        for name in ("bad", "good", "gone"):
            await of(place, "pod", name, "Running")
        await place.kubelets.end(NAMESPACE, "bad", End(code=7))
        await place.kubelets.end(NAMESPACE, "good")
        await place.api.delete(f"{kinds.PODS}/gone")
        assert "7" in (await of(place, "pod", "bad", "Failed"))["message"]
        await of(place, "pod", "good", "Succeeded")
        assert (await of(place, "pod", "gone", "Failed"))["reason"] == "Cancelled"

    tell(story)


def test_the_newest_gang_of_a_name_is_meant(tell):
    async def story(place: OperatorPlace) -> None:
        await make(place, gang("red", 2, **{"windlass.dev/gang-size": "2"}))
        await of(place, "gang", "red", "Running")
        for rank in range(2):
            await place.api.delete(f"{kinds.PODS}/red-{rank}")
        await of(place, "gang", "red", "Failed")
        await make(place, gang("red", 4, **{"windlass.dev/gang-size": "4"}))
        await of(place, "gang", "red", "Running")
        for rank in range(4):
            await place.kubelets.end(NAMESPACE, f"red-{rank}")
        await of(place, "gang", "red", "Succeeded")
        listed = await place.get("/v1/jobs?all=1")
        assert [(job["replicas"], job["phase"]) for job in listed["jobs"]] == [(4, "Succeeded"), (2, "Failed")]
        assert (await place.get("/v1/jobs/red"))["phase"] == "Succeeded"

    tell(story)


def test_pods_of_a_gang_without_its_size_are_listed_with_what_is_missing(tell):
    async def story(place: OperatorPlace) -> None:
        await make(place, gang("blue", 2))
        job = await place.until("/v1/jobs/blue", lambda job: job["message"])
        assert "gang-size" in job["message"]

    tell(story)
