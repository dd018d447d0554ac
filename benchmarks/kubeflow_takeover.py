"""Takeover of 500 jobs that Kubeflow's operators have run, of every kind and in every state.

A real API server with fake kubelets on 40 nodes of 64 GPUs; etcd does not wait for the disk. The jobs are as
Kubeflow's operators leave them (`tests/kubernetes/kubeflow_jobs.py`). The takeover lasts from the start of `windlass
operator run` until every job that has not ended bears a state of Windlass's.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/kubernetes"))

import kubeflow_jobs
from kubeflow_jobs import KINDS, RUNS, STATES, LeftJob

from clusters.benchmark_plane import each_of, install_operator, operator_process, report, run_on_plane
from windlass.controlplane.api import Api
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_kubelet import FakeKubelets
from windlass.controlplane.programs import API_SERVER

JOBS, NODES = 500, 40
PODS = "/api/v1/namespaces/default/pods"
FINAL = ("succeeded", "failed")


def main() -> int:
    def install_and_measure(plane: ControlPlane, folder: Path) -> None:
        install_operator(plane)
        asyncio.run(measure(plane, folder))

    return run_on_plane(API_SERVER, install_and_measure)


async def measure(plane: ControlPlane, folder: Path) -> None:
    cycle = [(kind, state) for kind in KINDS.values() for state in STATES]
    jobs = [LeftJob(*cycle[number % len(cycle)], f"job-{number}") for number in range(JOBS)]
    async with plane.api() as api, FakeKubelets(plane.admin) as kubelets:
        await kubelets.add_nodes([f"n{number}" for number in range(NODES)], gpus=64)
        before = await leave_all(api, jobs)
        living = [job for job in jobs if job.state not in FINAL]
        taking = asyncio.create_task(until_taken_over(api, living))
        await asyncio.sleep(1)  # the watches begin
        began = time.perf_counter()
        with operator_process(folder, "operator"):
            await taking
            took = time.perf_counter() - began
            after = await pods(api)
            changed = [job.name for job in jobs if job.state in FINAL and (await job.get(api)) != job.object]
    lost = sum(uid not in after for uid in before)
    finished = {job.name for job in jobs if job.state in FINAL}
    again = sum(name in finished for uid, name in after.items() if uid not in before)
    report(f"takeover of {JOBS} jobs of Kubeflow's operators", took, "s", 30)
    report("pods on nodes that were restarted by it", lost, "pods", 0)
    report("pods of finished jobs that it has created", again, "pods", 0)
    report("finished jobs that it has changed", len(changed), "jobs", 0)


async def leave_all(api: Api, jobs: list[LeftJob]) -> set[str]:
    """Creates the jobs with their pods. Returns the uids of the pods on nodes, which all run."""

    async def leave(number: int) -> None:
        job = jobs[number]
        count = sum(job.kind.replicas.values())
        nodes = [f"n{(number + index) % NODES}" for index in range(count - (job.state == "restarting"))]
        await kubeflow_jobs.leave(api, job, [""] * count if job.state == "created" else nodes)

    await each_of(range(len(jobs)), leave)
    expected = sum(sum(job.kind.replicas.values()) - (job.state == "restarting") for job in jobs if job.state in RUNS)
    while True:
        found = (await api.get(PODS, fieldSelector="status.phase=Running"))["items"]
        if len(found) == expected:
            return {pod["metadata"]["uid"] for pod in found}
        await asyncio.sleep(0.5)


async def until_taken_over(api: Api, jobs: list[LeftJob]) -> None:
    """Waits until each of these jobs bears a state of Windlass's."""
    of_path: dict[str, set[str]] = {}
    for job in jobs:
        of_path.setdefault(job.path, set()).add(job.name)
    await asyncio.gather(*(until_written(api, path, names) for path, names in of_path.items()))


async def until_written(api: Api, path: str, names: set[str]) -> None:
    version = (await api.get(path, limit=1))["metadata"]["resourceVersion"]
    while names:  # the API server ends each watch after some minutes
        async for event in api.watch(path, version):
            version = event["object"]["metadata"]["resourceVersion"]
            if "windlass" in event["object"].get("status", {}):
                names.discard(event["object"]["metadata"]["name"])
            if not names:
                return


async def pods(api: Api) -> dict[str, str]:
    """The name of the job of each pod that is not being deleted, by uid."""
    found: list[dict[str, Any]] = (await api.get(PODS))["items"]
    living = [pod["metadata"] for pod in found if "deletionTimestamp" not in pod["metadata"]]
    return {about["uid"]: about["labels"]["training.kubeflow.org/job-name"] for about in living}


if __name__ == "__main__":
    sys.exit(main())
