"""The Python API on a real API server: jobs on fake kubelets, and functions in real containers."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from backend_host import Behaviour
from kubernetes_host import JOBS, namespaced
from operator_account import LEASE
from operator_place import OperatorPlace, leading

import strays
import windlass
from windlass.controlplane.api import Api
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.real_nodes import RealCluster

from .operator_process import leading_operator

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
IMAGE = "example.com/job:1"
FUNCTIONS = """\
import os
import windlass
from beside import FACTOR

@windlass.job(nodes=2, restarts=1, image="example.com/job:1")
def add(a, b, text=""):
    rank, generation = os.environ["RANK"], os.environ["WINDLASS_GENERATION"]
    print(f"attempt {generation} rank {rank} of {os.environ['WORLD_SIZE']}", flush=True)
    if (rank, generation) == ("1", "1"):
        raise SystemExit(5)
    return {"sum": FACTOR * (a + b), "text": text + "x" * 20_000}
"""


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Selects a cluster and its operator by the environment, as users do."""

    def select(kubeconfig: Path, lease: str) -> None:
        for name in [name for name in os.environ if name.startswith("WINDLASS_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        monkeypatch.setenv("WINDLASS_OPERATOR", lease)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    return select


async def calls_in(api: Api) -> list[dict[str, Any]]:
    """The Secrets with calls of functions."""
    found = (await api.get("/api/v1/namespaces/default/secrets"))["items"]
    return [each for each in found if each["metadata"]["name"].startswith("call-")]


@asynccontextmanager
async def told(plane: ControlPlane, folder: Path) -> AsyncIterator[OperatorPlace]:
    """A leading operator whose Lease has its address."""
    async with asyncio.timeout(strays.TIMEOUT_S * 6), leading(plane, folder) as place:
        about = {"name": "told", "annotations": {"windlass.dev/address": f"http://127.0.0.1:{place.port}"}}
        await place.api.post(LEASES, {"metadata": about, "spec": {}})
        try:
            yield place
        finally:
            await place.api.delete(f"{LEASES}/told")


@pytest.mark.apiserver
@pytest.mark.timeout(300)
def test_jobs_of_a_cluster_are_submitted_listed_explained_and_cancelled(
    apiserver: ControlPlane, tmp_path: Path, configure
):
    configure(apiserver.kubeconfig, "default/told")

    async def story() -> None:
        async with told(apiserver, tmp_path) as place, windlass.AsyncClient("kubernetes") as client:
            first = await client.submit([Behaviour.RUN], nodes=2, gpus=2, procs=1, name="big", image=IMAGE)
            await place.phase(first.id, "Running")
            second = await client.submit([Behaviour.RUN], gpus=1, name="small", image=IMAGE)
            await place.until(f"/v1/jobs/{second.id}", lambda job: job["position"] == 1)
            assert [(job.id, job.phase) for job in await client.list()] == [
                (first.id, "Running"),
                (second.id, "Queued"),
            ]
            assert (await second.why()).job.position == 1
            assert [(node.name, node.used.get("gpu")) for node in await client.nodes()] == [("n1", 2), ("n2", 2)]
            assert [queue.name for queue in await client.queues()] == ["default"]
            await first.suspend()
            await place.phase(first.id, "Suspended")
            await first.cancel()
            assert ((await first.wait(60)).phase, (await first.info()).reason) == ("Failed", "Cancelled")
            await place.phase(second.id, "Running")
            assert [job.id for job in await client.history()] == [first.id]
            await second.cancel()
            await second.wait(60)

    asyncio.run(story())


@pytest.mark.apiserver
@pytest.mark.timeout(300)
def test_a_schedule_of_a_cluster_is_created_run_and_deleted(apiserver: ControlPlane, tmp_path: Path, configure):
    configure(apiserver.kubeconfig, "default/told")
    where = "/apis/windlass.dev/v1alpha1/namespaces/default/crontrainingjobs/nightly"

    async def story() -> None:
        async with told(apiserver, tmp_path) as place, windlass.AsyncClient("kubernetes") as client:
            made = await client.create_schedule(
                [Behaviour.SUCCEED], "0 3 * * *", name="nightly", image=IMAGE, cron_policy="queue"
            )
            assert (made.name, made.policy, made.suspended, made.missed) == ("nightly", "queue", False, 0)
            assert (await place.api.get(where))["spec"]["jobTemplate"]["spec"]["image"] == IMAGE
            run = await client.run_schedule("nightly")
            assert (await run.wait(60)).phase == "Succeeded"
            await client.suspend_schedule("nightly")
            [found] = await client.schedules()
            assert (found.suspended, found.next) == (True, None)
            await client.delete_schedule("nightly")
            deleted = await place.api.get(where)  # the API server alone collects no garbage
            assert deleted["metadata"]["finalizers"] == ["orphan"]
            await place.api.patch(where, {"metadata": {"finalizers": None}})

    asyncio.run(story())


@pytest.mark.apiserver
@pytest.mark.timeout(300)
def test_files_of_manifests_and_refusals_of_a_cluster(apiserver: ControlPlane, tmp_path: Path, configure):
    configure(apiserver.kubeconfig, "default/told")
    file = tmp_path / "mnist.yaml"
    container = {"name": "pytorch", "image": IMAGE, "command": [Behaviour.FAIL]}
    worker = {"replicas": 2, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    manifest = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "mnist"}}
    file.write_text(json.dumps({**manifest, "spec": {"pytorchReplicaSpecs": {"Worker": worker}}}))

    async def story() -> None:
        async with told(apiserver, tmp_path), windlass.AsyncClient("kubernetes") as client:
            with pytest.raises(windlass.InvalidRequestError, match="take no other fields"):
                await client.submit(file, nodes=3)
            job = await client.submit(file)
            assert job.id == "default/pytorchjob/mnist"
            assert ((await job.wait(60)).phase, (await job.info()).exit_code) == ("Failed", 3)
            with pytest.raises(windlass.JobFailedError):
                await job.result()
            with pytest.raises(windlass.WrongStateError, match="already"):
                await client.submit(file)
            with pytest.raises(windlass.NoSuchJobError):
                await client.get("nobody")
            with pytest.raises(windlass.InvalidRequestError, match="a pod needs an image"):
                await client.submit("true", name="bare")
            with pytest.raises(windlass.InvalidRequestError, match="use `windlass top JOB`"):
                await job.metrics()

    asyncio.run(story())


def test_a_context_that_does_not_exist_is_named(tmp_path: Path, configure):
    (tmp_path / "kubeconfig").write_text("apiVersion: v1\nkind: Config\ncontexts: []\n")
    configure(tmp_path / "kubeconfig", "")
    with pytest.raises(windlass.InvalidRequestError, match="elsewhere"):
        windlass.Client("elsewhere").list()


@pytest.mark.real_nodes
@pytest.mark.timeout(400)
def test_a_function_is_shipped_to_real_pods_over_a_restart_and_returns(
    real_nodes: RealCluster, tmp_path: Path, configure, monkeypatch: pytest.MonkeyPatch
):
    code = tmp_path / "code"
    code.mkdir()
    (code / "shipped_functions.py").write_text(FUNCTIONS)
    (code / "beside.py").write_text("FACTOR = 3\n")
    monkeypatch.syspath_prepend(str(code))
    import shipped_functions  # noqa: PLC0415 - written above

    real_nodes.know_images(IMAGE)
    plane = real_nodes.plane
    configure(plane.kubeconfig, f"default/{LEASE}")

    async def story() -> None:
        async with leading_operator(plane), windlass.AsyncClient("kubernetes") as client:
            job = await client.submit(shipped_functions.add.bind(1, 2, text="$$5 $(WINDLASS_JOB_ID) "))
            async with plane.api() as api:
                made = await api.get(f"{namespaced(JOBS)}/{job.id.split('/')[1]}")
                assert "$$5" not in json.dumps(made)
                calls = await calls_in(api)
                assert [each["metadata"]["ownerReferences"][0]["uid"] for each in calls] == [made["metadata"]["uid"]]
            followed = [line.text async for line in job.logs(follow=True, attempt=0)]
            assert {f"attempt 2 rank {rank} of 2" for rank in (0, 1)} <= set(followed)
            assert await job.result() == {
                "sum": 9,
                "text": "$$5 $(WINDLASS_JOB_ID) " + "x" * 20_000,
            }
            assert (await job.info()).attempts == 2

    try:
        asyncio.run(story())
    finally:
        del sys.modules["shipped_functions"]
