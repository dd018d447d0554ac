"""TrainingJobs in a queue of the real Kueue: held, admitted to the nodes of a flavor, evicted and admitted again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from external.rig import Rig, until_empty
from planes.tidy import clear

from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_kubelet import FakeKubelets
from windlass.controlplane.fake_pod import End

from .kueue_queues import FLAVOR, GROUP, QUEUE

pytestmark = [pytest.mark.controllers, pytest.mark.timeout(240)]
JOBS = "/apis/windlass.dev/v1alpha1/namespaces/default/trainingjobs"
WORKLOADS = f"{GROUP}/namespaces/default/workloads"


@asynccontextmanager
async def cluster(plane: ControlPlane) -> AsyncIterator[Rig]:
    """Two nodes of the flavor, and one that Kueue does not know."""
    async with plane.api() as api, FakeKubelets(plane.admin) as kubelets:
        await kubelets.add_nodes(["other"], gpus=8)
        await kubelets.add_nodes(["n1", "n2"], gpus=4, labels=lambda _index: FLAVOR)
        rig = Rig(plane, api, kubelets)
        await rig.scheduler()
        try:
            yield rig
        finally:
            await api.delete(JOBS, propagationPolicy="Background")
            await asyncio.sleep(0.5)
            for scheduler in list(rig.schedulers):
                await rig.close(scheduler)
            await api.delete(WORKLOADS)
            await clear(api)
            await until_empty(api)


async def submit(rig: Rig, name: str, **fields: Any) -> None:
    labels = {"kueue.x-k8s.io/queue-name": QUEUE}
    spec = {"image": "img:1", "command": ["torchrun", "train.py"], "nodes": 2, "gpus": 2, **fields}
    body = {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }
    await rig.api.post(JOBS, body, fieldValidation="Strict")


async def until_running(rig: Rig, job: str, count: int = 2) -> list[str]:
    """Waits until as many pods of a job run, and none of another job does."""

    async def running() -> list[str] | None:
        found = [name for name, pod in (await rig.pods()).items() if pod["status"]["phase"] == "Running"]
        return found if len(found) == count and all(name.startswith(job) for name in found) else None

    return await rig.until(running, 60)


async def until_waiting(rig: Rig, job: str, *words: str) -> str:
    """Waits until the verdict on a job has some words, and returns it."""

    async def verdict() -> str | None:
        found = rig.schedulers[0].controller.plan.verdicts.get(f"default/{job}")
        return found.message if found and all(word in found.message for word in words) else None

    return await rig.until(verdict, 60)


def test_a_job_waits_with_the_message_of_kueue_and_runs_on_nodes_of_its_flavor(plane: ControlPlane) -> None:
    async def scenario() -> None:
        async with cluster(plane) as rig:
            await submit(rig, "one")
            first = await until_running(rig, "one")
            assert set((await rig.places()).values()) <= {"n1", "n2"}
            await submit(rig, "two")
            message = await until_waiting(rig, "two", "nvidia.com/gpu", "4 more needed")
            assert message.startswith(f"Kueue has not admitted it in the queue {QUEUE}: ")
            for name in first:
                await rig.nodes.end("default", name, End())
            await until_running(rig, "two")

    asyncio.run(scenario())


def test_kueue_evicts_a_gang_which_stops_and_is_admitted_again(plane: ControlPlane) -> None:
    async def scenario() -> None:
        async with cluster(plane) as rig:
            await submit(rig, "low", priority=-100)
            await until_running(rig, "low")
            await submit(rig, "high")
            first = await until_running(rig, "high")
            await until_waiting(rig, "low", "Kueue has not admitted it")
            for name in first:
                await rig.nodes.end("default", name, End())
            await until_running(rig, "low")

    asyncio.run(scenario())


def test_an_elastic_gang_has_the_pods_that_kueue_admits(plane: ControlPlane) -> None:
    async def scenario() -> None:
        async with cluster(plane) as rig:
            await submit(rig, "el", nodes=None, elastic={"min": 1, "max": 4})
            await until_running(rig, "el", 2)

    asyncio.run(scenario())


def test_a_job_with_a_priority_that_its_queue_of_windlass_refuses_holds_no_quota(plane: ControlPlane) -> None:
    async def scenario() -> None:
        async with cluster(plane) as rig:
            await submit(rig, "above", priority=100)
            await submit(rig, "one")
            await until_running(rig, "one")
            assert [name for name in await workloads(rig) if "above" in name] == []
            await rig.api.patch(f"{JOBS}/above", {"spec": {"priority": 0}})
            await until_waiting(rig, "above", "4 more needed")

    asyncio.run(scenario())


def test_a_job_that_names_no_possible_queue_of_kueue_says_so(plane: ControlPlane) -> None:
    async def scenario() -> None:
        async with cluster(plane) as rig:
            await submit(rig, "bad", labels={"kueue.x-k8s.io/queue-name": "Bad Queue"})

            async def message() -> str | None:
                found = (await rig.api.get(f"{JOBS}/bad")).get("status", {}).get("conditions") or [{}]
                return found[-1].get("message")

            assert "expects the name of a LocalQueue of Kueue" in await rig.until(message, 60)
            assert not await workloads(rig)

    asyncio.run(scenario())


def test_a_suspended_job_leaves_the_queue(plane: ControlPlane) -> None:
    async def scenario() -> None:
        async with cluster(plane) as rig:
            await submit(rig, "one")
            await until_running(rig, "one")
            await rig.api.patch(f"{JOBS}/one", {"spec": {"suspend": True}})

            async def gone() -> bool:
                return not (await rig.api.get(WORKLOADS))["items"] and not await rig.pods()

            await rig.until(gone, 60)
            await rig.api.patch(f"{JOBS}/one", {"spec": {"suspend": None}})
            await until_running(rig, "one")

    asyncio.run(scenario())


def test_a_workload_that_is_deleted_while_no_operator_runs_is_created_again(plane: ControlPlane) -> None:
    async def scenario() -> None:
        async with cluster(plane) as rig:
            await submit(rig, "one")
            await until_running(rig, "one")
            await submit(rig, "two")
            await until_waiting(rig, "two", "nvidia.com/gpu", "4 more needed")
            await rig.close(rig.schedulers[0])
            before = await workloads(rig)
            await rig.api.delete(WORKLOADS)
            await rig.until(lambda: none_of(rig, before), 30)
            await rig.scheduler()
            # Kueue gives the quota that the deletion has freed to one of the two
            await rig.until(lambda: count_running(rig), 60)
            after = await workloads(rig)
            assert after.keys() == before.keys()
            assert not set(after.values()) & set(before.values())
            (waits,) = {"one", "two"} - {name.partition("-")[0] for name in await rig.places()}
            await until_waiting(rig, waits, f"Kueue has not admitted it in the queue {QUEUE}")

    asyncio.run(scenario())


async def workloads(rig: Rig) -> dict[str, str]:
    """Uids of the Workloads by name."""
    found = (await rig.api.get(WORKLOADS))["items"]
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in found}


async def none_of(rig: Rig, uids: dict[str, str]) -> bool:
    return not set(uids.values()) & set((await workloads(rig)).values())


async def count_running(rig: Rig) -> bool:
    """Whether both Workloads exist and the two pods of one job run."""
    running = [name for name, pod in (await rig.pods()).items() if pod["status"]["phase"] == "Running"]
    return len(await workloads(rig)) == 2 and len(running) == 2
