"""Notebooks of Kubeflow on an API server: status, Service, the stop annotation, preemption with a volume claim."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from backend_host import Behaviour
from operator_place import OperatorPlace

import strays
from windlass.server.operator.notebook_culler import LAST_ACTIVITY, NotebookCuller

NOTEBOOKS = "/apis/kubeflow.org/v1/namespaces/default/notebooks"
OLD_NOTEBOOKS = "/apis/kubeflow.org/v1beta1/namespaces/default/notebooks"
JOBS = "/apis/windlass.dev/v1alpha1/namespaces/default/trainingjobs"
POLICIES = "/apis/windlass.dev/v1alpha1/schedulingpolicies"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
SERVICES = "/api/v1/namespaces/default/services"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
RUN = Behaviour.RUN.value
STOPPED = "kubeflow-resource-stopped"
pytestmark = pytest.mark.apiserver


def notebook(version: str = "v1", gpus: int = 1, **spec: Any) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": gpus}}
    server = {"name": "lesson", "image": "example.com/jupyter:1", "command": [RUN], "resources": resources}
    pod = {"containers": [server], **spec}
    about = {"name": "lesson", "labels": {"team": "vision"}}
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "Notebook",
        "metadata": about,
        "spec": {"template": {"spec": pod}},
    }


async def until(place: OperatorPlace, path: str, holds: Callable[[Any], object]) -> Any:
    found = None
    try:
        async with asyncio.timeout(strays.TIMEOUT_S):
            while True:
                if holds(found := await place.api.get(path)):
                    return found
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"{path} is {found}") from None


def status(name: str, value: object) -> Callable[[Any], bool]:
    """Whether a field of the status has a value."""
    return lambda found: (found.get("status") or {}).get(name) == value


def conditions(found: Any) -> dict[str, str]:
    return {each["type"]: each["status"] for each in found["status"]["conditions"]}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_notebook_runs_and_shows_its_container(tell, version):
    async def story(place: OperatorPlace) -> None:
        await place.api.post(NOTEBOOKS if version == "v1" else OLD_NOTEBOOKS, notebook(version))
        found = await until(place, f"{NOTEBOOKS}/lesson", status("readyReplicas", 1))
        assert "running" in found["status"]["containerState"]
        assert (conditions(found)["Running"], conditions(found)["Waiting"]) == ("True", "False")
        pod = await place.api.get(f"{PODS}/lesson-0")
        assert pod["metadata"]["labels"].items() >= {"notebook-name": "lesson", "team": "vision"}.items()
        service = await place.api.get(f"{SERVICES}/lesson")
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        assert (await place.get("/v1/jobs/notebook/lesson"))["phase"] == "Running"
        await place.api.delete(f"{NOTEBOOKS}/lesson")

    tell(story)


def test_the_annotation_stops_a_notebook_and_its_removal_starts_it(tell):
    async def annotate(place: OperatorPlace, value: str | None) -> None:
        await place.api.patch(f"{NOTEBOOKS}/lesson", {"metadata": {"annotations": {STOPPED: value}}})

    async def story(place: OperatorPlace) -> None:
        await place.api.post(NOTEBOOKS, notebook())
        await until(place, f"{NOTEBOOKS}/lesson", status("readyReplicas", 1))
        await annotate(place, "2026-01-01T00:00:00Z")
        found = await until(place, f"{NOTEBOOKS}/lesson", status("state", "Suspended"))
        await until(place, PODS, lambda pods: not pods["items"])
        assert (found["status"]["readyReplicas"], found["status"]["containerState"]) == (0, {})
        assert await place.api.get(f"{SERVICES}/lesson")
        await annotate(place, None)
        await until(place, f"{NOTEBOOKS}/lesson", status("readyReplicas", 1))
        await place.api.delete(f"{NOTEBOOKS}/lesson")

    tell(story)


def test_a_preempted_notebook_waits_and_returns_with_its_volume_claim(tell):
    async def story(place: OperatorPlace) -> None:
        await make_claim(place)
        await place.api.post(CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
        policy = {"apiVersion": "windlass.dev/v1alpha1", "kind": "SchedulingPolicy", "spec": {"min_runtime": "0s"}}
        await place.api.post(POLICIES, {**policy, "metadata": {"name": "default"}})
        try:
            await preempt(place)
        finally:
            await place.api.delete(f"{POLICIES}/default")
            await place.api.delete(f"{CLASSES}/urgent")
            await place.api.delete(f"{CLAIMS}/lesson-work")
            await place.api.delete(f"{VOLUMES}/lesson-work")

    tell(story)


async def make_claim(place: OperatorPlace) -> None:
    """Makes a volume and the claim that is bound to it, as the controllers of a cluster would."""
    size = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    claim_ref = {"namespace": "default", "name": "lesson-work"}
    volume = {**size, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/srv"}, "claimRef": claim_ref}
    await place.api.post(VOLUMES, {"metadata": {"name": "lesson-work"}, "spec": volume})
    claim = {**size, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "lesson-work"}
    await place.api.post(CLAIMS, {"metadata": {"name": "lesson-work"}, "spec": claim})
    await place.api.patch(f"{CLAIMS}/lesson-work/status", {"status": {"phase": "Bound"}})


async def preempt(place: OperatorPlace) -> None:
    volumes = [{"name": "work", "persistentVolumeClaim": {"claimName": "lesson-work"}}]
    await place.api.post(NOTEBOOKS, notebook(gpus=2, volumes=volumes))
    await until(place, f"{NOTEBOOKS}/lesson", status("readyReplicas", 1))
    first = await place.api.get(f"{PODS}/lesson-0")
    # 1. A gang of a higher class takes both nodes.
    spec = {"nodes": 2, "gpus": 2, "procs": 1, "image": "example.com/job:1", "command": [RUN]}
    urgent = {"apiVersion": "windlass.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "urgent"}}
    of_class = {"spec": {"priorityClassName": "urgent"}}
    await place.api.post(JOBS, {**urgent, "spec": {**spec, "pod": of_class}})
    await until(place, f"{JOBS}/urgent", status("state", "Running"))
    found = await until(place, f"{NOTEBOOKS}/lesson", status("state", "Queued"))
    waiting = next(each for each in found["status"]["conditions"] if each["type"] == "Waiting")
    assert (waiting["status"], found["status"]["readyReplicas"]) == ("True", 0)
    # 2. Once it has ended, the notebook returns: a new pod, the same claim.
    await place.delete("urgent")
    await until(place, f"{NOTEBOOKS}/lesson", status("readyReplicas", 1))
    second = await place.api.get(f"{PODS}/lesson-0")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert "lesson-work" in str(second["spec"]["volumes"])
    await place.api.delete(f"{NOTEBOOKS}/lesson")


def test_an_idle_notebook_is_stopped_and_starts_when_the_annotation_is_removed(tell):
    kernels: list[Any] = []
    asked: list[tuple[str, int, str]] = []

    async def answer(host: str, port: int, path: str) -> object:
        asked.append((host, port, path))
        return kernels

    def annotations(found: Any) -> dict[str, str]:
        return found["metadata"].get("annotations") or {}

    async def story(place: OperatorPlace) -> None:
        culler = NotebookCuller(place.world, limit_ms=3_600_000, read=answer)
        await place.api.post(NOTEBOOKS, notebook())
        await until(place, f"{NOTEBOOKS}/lesson", status("readyReplicas", 1))
        # 1. A notebook of which nothing is known yet is active now.
        await culler.look()
        found = await until(place, f"{NOTEBOOKS}/lesson", lambda found: LAST_ACTIVITY in annotations(found))
        assert STOPPED not in annotations(found)
        assert asked[0][1:] == (8888, "/notebook/default/lesson/api/kernels")
        # 2. Its last activity was two hours ago, and its kernels are idle: it is stopped.
        kernels.append({"execution_state": "idle", "last_activity": "2026-01-01T00:00:00Z"})
        old = {"metadata": {"annotations": {LAST_ACTIVITY: "2026-01-01T00:00:00Z"}}}
        await place.api.patch(f"{NOTEBOOKS}/lesson", old)
        known = place.world.job_objects
        await until_true(lambda: any("2026-01-01" in str(cache.objects) for cache in known.values()))
        await culler.look()
        found = await until(place, f"{NOTEBOOKS}/lesson", status("state", "Suspended"))
        assert STOPPED in annotations(found)
        assert LAST_ACTIVITY not in annotations(found)
        await until(place, PODS, lambda pods: not pods["items"])
        # 3. Without the annotation it starts again, and counts as active.
        await place.api.patch(f"{NOTEBOOKS}/lesson", {"metadata": {"annotations": {STOPPED: None}}})
        await until(place, f"{NOTEBOOKS}/lesson", status("readyReplicas", 1))
        await culler.look()
        assert STOPPED not in annotations(await place.api.get(f"{NOTEBOOKS}/lesson"))
        await place.api.delete(f"{NOTEBOOKS}/lesson")

    tell(story)


async def until_true(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(strays.TIMEOUT_S):
        while not holds():  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.05)
