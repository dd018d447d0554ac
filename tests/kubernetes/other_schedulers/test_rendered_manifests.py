"""Rendered manifests on a real API server: admitted by Kueue, placed by kube-scheduler, restarted by JobSet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from planes.coscheduler import coscheduler
from planes.tidy import clear
from planes.volcano import job_definition

from windlass.controlplane import kueue
from windlass.controlplane.api import Api
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_kubelet import FakeKubelets
from windlass.controlplane.fake_pod import End
from windlass.jobs.description.job_file import loads
from windlass.jobs.kubernetes.other_schedulers.other_scheduler import OtherScheduler
from windlass.jobs.kubernetes.other_schedulers.rendered_manifests import render_manifests

from .kueue_queues import FLAVOR, GROUP, QUEUE

pytestmark = [pytest.mark.controllers, pytest.mark.timeout(240)]
NAMESPACE = "namespaces/default"
PATHS = {
    "Service": f"/api/v1/{NAMESPACE}/services",
    "Job": f"/apis/batch/v1/{NAMESPACE}/jobs",
    "JobSet": f"/apis/jobset.x-k8s.io/v1alpha2/{NAMESPACE}/jobsets",
}
GROUPS = {
    OtherScheduler.NATIVE: f"/apis/scheduling.k8s.io/v1alpha2/{NAMESPACE}/podgroups",
    OtherScheduler.COSCHEDULING: f"/apis/scheduling.x-k8s.io/v1alpha1/{NAMESPACE}/podgroups",
}
PODS = f"/api/v1/{NAMESPACE}/pods"
GANG = "image: img:1\ncommand: torchrun train.py\ngpus: 2"


@asynccontextmanager
async def cluster(plane: ControlPlane) -> AsyncIterator[tuple[Api, FakeKubelets]]:
    async with plane.api() as api, FakeKubelets(plane.admin) as fake:
        await fake.add_nodes(["n1", "n2"], gpus=4, labels=lambda _index: FLAVOR)
        try:
            yield api, fake
        finally:
            for path in (*PATHS.values(), *GROUPS.values()):
                await api.delete(path, propagationPolicy="Background")
            await clear(api)


async def apply(api: Api, target: OtherScheduler, fields: str) -> None:
    """Creates the objects; the API server refuses unknown fields."""
    for each in render_manifests(loads(f"{fields}\n", base="/srv"), target).objects:
        path = GROUPS[target] if each["kind"] == "PodGroup" else PATHS[each["kind"]]
        await api.post(path, each, fieldValidation="Strict")


async def until(api: Api, holds: Callable[[list[dict[str, Any]]], bool], path: str = PODS) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    try:
        async with asyncio.timeout(60):
            while not holds(found := (await api.get(path))["items"]):  # noqa: ASYNC110 - polled
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError([(each["metadata"]["name"], each.get("status")) for each in found]) from None
    return found


def running(pods: list[dict[str, Any]]) -> list[str]:
    return sorted(each["metadata"]["name"] for each in pods if each["status"].get("phase") == "Running")


def considered(pods: list[dict[str, Any]], job: str) -> list[str]:
    """Pods of a job on which a scheduler has decided."""
    return [
        each["metadata"]["name"]
        for each in pods
        if each["metadata"]["name"].startswith(job)
        and any(one["type"] == "PodScheduled" for one in each["status"].get("conditions", ()))
    ]


def quota(workload: dict[str, Any]) -> dict[str, Any]:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == "QuotaReserved"), {})


def test_kueue_admits_a_gang_whole_and_the_next_one_after_it(plane: ControlPlane) -> None:
    async def scenario() -> None:
        async with cluster(plane) as (api, fake):
            await apply(api, OtherScheduler.KUEUE, f"name: one\n{GANG}\nnodes: 2\nqueue: {QUEUE}")
            pods = await until(api, lambda pods: len(running(pods)) == 2)
            assert {each["spec"]["nodeSelector"]["pool"] for each in pods} == {"a100"}
            await apply(api, OtherScheduler.KUEUE, f"name: two\n{GANG}\nnodes: 2\nqueue: {QUEUE}")
            workloads = f"{GROUP}/{NAMESPACE}/workloads"
            await until(api, lambda found: any(quota(each).get("status") == "False" for each in found), workloads)
            assert len(await until(api, lambda pods: len(running(pods)) == 2)) == 2
            for name in running((await api.get(PODS))["items"]):
                await fake.end("default", name, End())
            await until(api, lambda pods: sum(name.startswith("two") for name in running(pods)) == 2)

    asyncio.run(scenario())


def test_kueue_admits_an_elastic_gang_with_fewer_pods(plane: ControlPlane) -> None:
    async def scenario() -> None:
        async with cluster(plane) as (api, _):
            await apply(api, OtherScheduler.KUEUE, f"name: el\n{GANG}\nelastic: {{min: 1, max: 3}}\nqueue: {QUEUE}")
            assert len(await until(api, lambda pods: len(running(pods)) == 2)) == 2

    asyncio.run(scenario())


def test_a_job_set_restarts_the_whole_gang_after_a_failure(plane: ControlPlane) -> None:
    async def scenario() -> None:
        async with cluster(plane) as (api, fake):
            await apply(api, OtherScheduler.JOBSET, f"name: set\n{GANG}\nnodes: 2\nrestart: {{user: 1}}")
            first = running(await until(api, lambda pods: len(running(pods)) == 2))
            await fake.end("default", first[0], End(code=1))
            restarted = await until(api, lambda pods: len(running(pods)) == 2 and not set(running(pods)) & set(first))
            hosts = {each["spec"]["hostname"] for each in restarted if each["metadata"]["name"] not in first}
            assert hosts == {"set-worker-0-0", "set-worker-0-1"}
            status = (await api.get(f"{PATHS['JobSet']}/set"))["status"]
            assert status["restarts"] == 1

    asyncio.run(scenario())


def test_kube_scheduler_binds_a_gang_whole_or_not_at_all(plane: ControlPlane) -> None:
    async def scenario() -> None:
        async with cluster(plane) as (api, _):
            await apply(api, OtherScheduler.NATIVE, f"name: fits\n{GANG}\nnodes: 3")
            await until(api, lambda pods: len(running(pods)) == 3)
            await apply(api, OtherScheduler.NATIVE, f"name: large\n{GANG}\nnodes: 2")
            waiting = await until(api, lambda pods: len(considered(pods, "large")) == 2)
            assert not any(each["spec"].get("nodeName") for each in waiting if "large" in each["metadata"]["name"])

    asyncio.run(scenario())


def test_coscheduling_binds_a_gang_whole_or_not_at_all(plane: ControlPlane) -> None:
    if lacking := kueue.lacking(["coscheduler"]):
        pytest.skip(lacking)

    async def scenario() -> None:
        async with cluster(plane) as (api, _):
            await apply(api, OtherScheduler.COSCHEDULING, f"name: fits\n{GANG}\nnodes: 3")
            await until(api, lambda pods: len(running(pods)) == 3)
            await apply(api, OtherScheduler.COSCHEDULING, f"name: large\n{GANG}\nnodes: 2")
            waiting = await until(api, lambda pods: len(considered(pods, "large")) == 2)
            assert not any(each["spec"].get("nodeName") for each in waiting if "large" in each["metadata"]["name"])

    with coscheduler(plane):
        asyncio.run(scenario())


def test_volcano_takes_the_job(plane: ControlPlane, tmp_path: Path) -> None:
    """Volcano itself is not in a Go module; the definition of its Jobs is made from its types."""
    if lacking := kueue.lacking(["controller-gen"]):
        pytest.skip(lacking)
    definition = job_definition(tmp_path)

    async def scenario() -> None:
        async with plane.api() as api:
            await kueue.install(api, [definition])
            fields = f"name: vol\n{GANG}\nelastic: {{min: 1, max: 3}}\ntime: 1h\nttl: 1h\nrestart: {{user: 2}}"
            [job] = render_manifests(loads(f"{fields}\n", base="/srv"), OtherScheduler.VOLCANO).objects
            path = f"/apis/batch.volcano.sh/v1alpha1/{NAMESPACE}/jobs"
            made = await api.post(path, job, fieldValidation="Strict")
            assert made["spec"] == job["spec"]
            await api.delete(path)

    asyncio.run(scenario())
