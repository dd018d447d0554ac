"""A cluster whose jobs Kubeflow's operators have run is taken over: every kind, in every state."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import kubeflow_jobs
import pytest
from kubeflow_jobs import KINDS, RUNS, STATES, V2, LeftJob
from operator_place import OperatorPlace, leading

import strays
from windlass.controlplane.api import Api
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_kubelet import FakeKubelets
from windlass.controlplane.fake_pod import annotated

PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
REMOVED = "pytorchjob-running-worker-7"
"""Name of a worker that was removed, by an operator that ended before it deleted the worker's service."""
QUICK = "mpijobv2-succeeded"
"""Name of a job that had ended before its operator saw it run: the condition Running was added after the end."""
PATHS = tuple({kind.path for kind in KINDS.values()} | {"/apis/batch/v1/jobs"})
pytestmark = pytest.mark.apiserver


class LeftCluster:
    """Jobs of every kind in every state, the pods that they had, and their statuses, before the takeover."""

    def __init__(self) -> None:
        self.jobs = [
            LeftJob(kind, state, f"{name.lower()}-{state}") for name, kind in KINDS.items() for state in STATES
        ]
        self.uids: dict[str, set[str]] = {}

    async def create(self, api: Api, kubelets: FakeKubelets) -> None:
        """Creates everything. A job that restarts has lost its last pod; pods of a created one have no nodes yet."""
        for job in self.jobs:
            count = sum(job.kind.replicas.values())
            placed = ["n1", "n2", "n1"][: count - (job.state == "restarting")]
            pods = await kubeflow_jobs.leave(api, job, [""] * count if job.state == "created" else placed)
            self.uids[job.name] = {pod["metadata"]["uid"] for pod in pods}
            if job.state in RUNS:
                for pod in pods:
                    await kubelets.running("default", pod["metadata"]["name"])
            if job.name == "pytorchjob-running":
                pods[-1]["metadata"]["name"] = REMOVED
                await api.post(SERVICES, kubeflow_jobs.service(pods[-1]))
            if job.name == QUICK:
                created, running, end = job.object["status"]["conditions"]
                changed = {"status": {"conditions": [created, end, running]}}
                job.object = await api.patch(f"{job.path}/{job.name}/status", changed)

    def of(self, *states: str) -> list[LeftJob]:
        return [job for job in self.jobs if job.state in states]


async def pods_by_job(api: Api) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for pod in (await api.get(PODS))["items"]:
        found.setdefault(pod["metadata"]["labels"]["training.kubeflow.org/job-name"], []).append(pod)
    return found


def missing(pods: list[dict[str, Any]], job: LeftJob) -> str:
    """A description of the pods of a job that do not run.

    No Job controller creates a pod for a launcher's new Job, and no garbage collection deletes that of the old one.
    """
    running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    lacks_launcher = job.kind.version == V2 and job.state == "created"
    wanted = sum(job.kind.replicas.values()) - lacks_launcher
    return (
        ""
        if len(running) == wanted == len(pods) - lacks_launcher
        else f"{job.name}: {len(running)} of {len(pods)}, not {wanted}"
    )


async def until_all_run(api: Api, jobs: list[LeftJob]) -> dict[str, list[dict[str, Any]]]:
    """The pods by job, once all of these jobs run."""
    waiting = [""]
    try:
        async with asyncio.timeout(strays.TIMEOUT_S * 2):
            while waiting:
                await asyncio.sleep(0.1)
                pods = await pods_by_job(api)
                waiting = [text for job in jobs if (text := missing(pods.get(job.name, []), job))]
    except TimeoutError:
        raise AssertionError(waiting) from None
    return pods


def test_jobs_of_every_kind_go_on_as_kubeflow_has_left_them_and_go_back(
    apiserver: ControlPlane, tmp_path: Path
) -> None:
    left = LeftCluster()

    async def check_return(api: Api, _kubelets: FakeKubelets) -> None:
        pods = await pods_by_job(api)
        for job in left.jobs:
            assert kubeflow_jobs.actions(job, await job.get(api), pods.get(job.name, [])) == [], job.name

    async def scenario() -> None:
        options = {"gpus": 64, "script_of": annotated, "paths": PATHS}
        async with leading(apiserver, tmp_path, prepare=left.create, after=check_return, **options) as place:
            await check_takeover(place, left)

    asyncio.run(scenario())


def true_conditions(status: dict[str, Any]) -> list[str]:
    return [each["type"] for each in status["conditions"] if each["status"] == "True"]


async def until_ended(api: Api, job: LeftJob) -> dict[str, Any]:
    """The status of a job, once it has a completion time."""
    async with asyncio.timeout(strays.TIMEOUT_S):
        while "completionTime" not in (status := (await job.get(api))["status"]):  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.1)
    return status


async def check_takeover(place: OperatorPlace, left: LeftCluster) -> None:
    api = place.api

    pods = await until_all_run(api, left.of("created", *RUNS))
    for job in left.of("running"):
        assert {pod["metadata"]["uid"] for pod in pods[job.name]} == left.uids[job.name], job.name
    for job in left.of("restarting"):
        assert left.uids[job.name] < {pod["metadata"]["uid"] for pod in pods[job.name]}, job.name
    for job in left.of("succeeded", "failed", "suspended"):
        assert job.name not in pods
    for job in left.of("succeeded", "failed"):
        status = (await job.get(api))["status"]
        if job.name == QUICK:
            assert sorted(status["conditions"], key=str) == sorted(job.object["status"]["conditions"], key=str)
        else:
            assert status == job.object["status"], job.name
    await check_services(api)
    await check_table(api, left)
    await check_ends(place, left)


async def check_services(api: Api) -> None:
    """The members of a running job keep their services, and a removed one has none."""
    async with asyncio.timeout(strays.TIMEOUT_S):
        while REMOVED in (names := [each["metadata"]["name"] for each in (await api.get(SERVICES))["items"]]):  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.1)
    assert {f"pytorchjob-running-{each}" for each in ("master-0", "worker-0", "worker-1")} <= set(names)


async def check_table(api: Api, left: LeftCluster) -> None:
    """`kubectl get` shows the state of each job, also of those that had ended before."""
    states = {path: {row["Name"]: row["State"] for row in await api.rows(path)} for path in {j.path for j in left.jobs}}
    for job in left.of("succeeded", "failed", "suspended", "running"):
        assert states[job.path][job.name] == job.state.capitalize(), job.name


async def check_ends(place: OperatorPlace, left: LeftCluster) -> None:
    """The end of an adopted pod is judged by the rules of its kind, and its job keeps the time of its start."""
    deciding = {"PyTorchJob": "master-0", "TFJob": "chief-0", "XGBoostJob": "master-0", "MPIJob": "launcher"}
    ending = [job for job in left.of("running") if job.kind.name in deciding and job.kind.version != V2]
    for job in ending:
        await place.kubelets.end("default", f"{job.name}-{deciding[job.kind.name]}")
    for job in ending:
        status = await until_ended(place.api, job)
        assert true_conditions(status) == ["Created", "Succeeded"], job.name
        assert status["startTime"] == job.object["status"]["startTime"]
