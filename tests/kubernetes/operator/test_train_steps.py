"""A TrainJob with initializers on a real API server: they run first, and no later start repeats them."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from operator_place import OperatorPlace, leading
from train_jobs import CLUSTER_RUNTIMES, PODS, TRAINJOBS, runtime, trainjob

import strays
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_pod import End, annotated

pytestmark = [pytest.mark.apiserver, pytest.mark.usefixtures("without_trainjobs")]
Scenario = Callable[[OperatorPlace], Awaitable[None]]
INITIALIZERS = ("dataset-initializer", "model-initializer")


def staged_runtime(nodes: int) -> dict[str, Any]:
    """A runtime whose trainer, with a GPU in each pod, waits for the initializers."""
    made = runtime("staged", "train:1", nodes)
    jobs = made["spec"]["template"]["spec"]["replicatedJobs"]
    node = jobs[0]["template"]["spec"]["template"]["spec"]
    node["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    node["volumes"] = [{"name": "initializer", "emptyDir": {}}]
    jobs[0]["dependsOn"] = [{"name": name, "status": "Complete"} for name in INITIALIZERS]
    made["spec"]["template"]["spec"]["replicatedJobs"] = [*(initializer(jobs[0], name) for name in INITIALIZERS), *jobs]
    return made


def initializer(node: dict[str, Any], name: str) -> dict[str, Any]:
    made = {**copy.deepcopy(node), "name": name}
    del made["dependsOn"]
    made["template"]["metadata"]["labels"] = {"trainer.kubeflow.org/trainjob-ancestor-step": name}
    mounts = [{"name": "initializer", "mountPath": "/workspace"}]
    container = {"name": name, "image": f"{name}:1", "volumeMounts": mounts}
    made["template"]["spec"]["template"]["spec"]["containers"] = [container]
    return made


async def pods(place: OperatorPlace, job: str) -> set[str]:
    """Names of the pods of a job, without the job's."""
    found = (await place.api.get(f"{PODS}?labelSelector=jobset.sigs.k8s.io/jobset-name%3D{job}"))["items"]
    return {each["metadata"]["name"].removeprefix(f"{job}-") for each in found}


async def status_with(place: OperatorPlace, job: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The status of a TrainJob, once the condition holds."""
    async with asyncio.timeout(strays.TIMEOUT_S):
        while not holds(status := (await place.api.get(f"{TRAINJOBS}/{job}")).get("status") or {}):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return status


def counts(status: dict[str, Any]) -> dict[str, set[str]]:
    """The counts that are not 0 of each job of the runtime."""
    return {
        each["name"]: {name for name, value in each.items() if name != "name" and value}
        for each in status.get("jobsStatus", ())
    }


async def initialize(place: OperatorPlace, job: str) -> None:
    """Ends the initializers, the second one only after the first is seen to have succeeded."""
    for name in INITIALIZERS:
        await place.kubelets.running("default", f"{job}-{name}-0-0")
    assert await pods(place, job) == {f"{each}-0-0" for each in INITIALIZERS}
    await place.kubelets.end("default", f"{job}-{INITIALIZERS[0]}-0-0")
    await status_with(place, job, lambda status: counts(status).get(INITIALIZERS[0]) == {"succeeded"})
    assert await pods(place, job) == {f"{each}-0-0" for each in INITIALIZERS}
    await place.kubelets.end("default", f"{job}-{INITIALIZERS[1]}-0-0")


def tell(plane: ControlPlane, folder: Path, scenario: Scenario) -> None:
    async def run() -> None:
        async with asyncio.timeout(strays.TIMEOUT_S * 4), leading(plane, folder, script_of=annotated) as place:
            await scenario(place)

    asyncio.run(run())


def test_initializers_run_first_and_no_suspension_or_new_operator_repeats_them(
    apiserver: ControlPlane, tmp_path: Path
) -> None:
    async def until_suspended(place: OperatorPlace) -> None:
        await place.api.post(CLUSTER_RUNTIMES, staged_runtime(2))
        job = trainjob("tuned", "staged")
        job["spec"]["initializer"] = {"dataset": {"storageUri": "hf://data"}, "model": {"storageUri": "hf://model"}}
        await place.api.post(TRAINJOBS, job)
        await initialize(place, "tuned")
        for index in range(2):
            await place.kubelets.running("default", f"tuned-node-0-{index}")
        done = {name: {"succeeded"} for name in INITIALIZERS}
        await status_with(place, "tuned", lambda status: counts(status) == {**done, "node": {"ready", "active"}})
        await place.api.patch(f"{TRAINJOBS}/tuned", {"spec": {"suspend": True}})
        await status_with(place, "tuned", lambda status: counts(status) == {**done, "node": {"suspended"}})
        while await pods(place, "tuned") != {f"{each}-0-0" for each in INITIALIZERS}:  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.05)

    async def after_a_new_start(place: OperatorPlace) -> None:
        await place.api.patch(f"{TRAINJOBS}/tuned", {"spec": {"suspend": False}})
        for index in range(2):
            await place.kubelets.running("default", f"tuned-node-0-{index}")
        for index in range(2):
            await place.kubelets.end("default", f"tuned-node-0-{index}")
        status = await status_with(place, "tuned", lambda status: status.get("state") == "Succeeded")
        assert counts(status) == {name: {"succeeded"} for name in (*INITIALIZERS, "node")}
        assert await pods(place, "tuned") == {"node-0-0", "node-0-1"}, "the others were removed with the nodes"

    tell(apiserver, tmp_path, until_suspended)
    tell(apiserver, tmp_path, after_a_new_start)


def test_the_time_to_live_deletes_the_pods_of_every_step(apiserver: ControlPlane, tmp_path: Path) -> None:
    async def scenario(place: OperatorPlace) -> None:
        made = staged_runtime(1)
        made["spec"]["template"]["spec"]["ttlSecondsAfterFinished"] = 0
        await place.api.post(CLUSTER_RUNTIMES, made)
        await place.api.post(TRAINJOBS, trainjob("short", "staged"))
        await initialize(place, "short")
        await place.kubelets.running("default", "short-node-0-0")
        await place.kubelets.end("default", "short-node-0-0")
        await status_with(place, "short", lambda status: status.get("state") == "Succeeded")
        async with asyncio.timeout(strays.TIMEOUT_S):
            while await pods(place, "short"):  # noqa: ASYNC110 - polled
                await asyncio.sleep(0.05)

    tell(apiserver, tmp_path, scenario)


def test_an_initializer_that_fails_beyond_the_limit_fails_the_job(apiserver: ControlPlane, tmp_path: Path) -> None:
    async def scenario(place: OperatorPlace) -> None:
        made = staged_runtime(2)
        for each in made["spec"]["template"]["spec"]["replicatedJobs"]:
            each["template"]["spec"]["backoffLimit"] = 0
        await place.api.post(CLUSTER_RUNTIMES, made)
        await place.api.post(TRAINJOBS, trainjob("broken", "staged"))
        await place.kubelets.running("default", "broken-dataset-initializer-0-0")
        await place.kubelets.running("default", "broken-model-initializer-0-0")
        await place.kubelets.end("default", "broken-dataset-initializer-0-0", End(1))
        status = await status_with(place, "broken", lambda status: status.get("state") == "Failed")
        failed = next(each for each in status["conditions"] if each["type"] == "Failed")
        assert "broken-dataset-initializer-0-0" in failed["message"]
        assert not any(name.startswith("node") for name in await pods(place, "broken"))

    tell(apiserver, tmp_path, scenario)
