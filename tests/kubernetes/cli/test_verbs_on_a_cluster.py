"""Verbs on a real API server with a leading operator and fake kubelets, which simulate programs by their commands."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import signal
import tarfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from backend_host import Behaviour
from kubernetes_host import JOBS, namespaced
from operator_place import OperatorPlace, leading

import strays
from windlass.controlplane.api import ApiError
from windlass.controlplane.cluster import ControlPlane

from .cluster_terminal import Terminal, until_says

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(300)]
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
IMAGE = ("--image", "example.com/job:1")
PYTORCHJOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: mnist}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: Never
      template: {spec: {containers: [{name: pytorch, image: example.com/mnist:1, command: [succeeds-at-once]}]}}
"""
Story = Callable[[OperatorPlace, Terminal], Awaitable[None]]


@pytest.fixture
def tell(apiserver: ControlPlane, tmp_path: Path) -> Callable[[Story], None]:
    """Runs a scenario with a terminal whose configuration names the operator's Lease."""

    async def run_story(story: Story) -> None:
        folder = tmp_path / "project"
        folder.mkdir()
        async with asyncio.timeout(strays.TIMEOUT_S * 6), leading(apiserver, tmp_path) as place:
            about = {"name": "told", "annotations": {"windlass.dev/address": f"http://127.0.0.1:{place.port}"}}
            await place.api.post(LEASES, {"metadata": about, "spec": {}})
            try:
                await story(place, Terminal(apiserver.kubeconfig, folder, "default/told"))
            finally:
                await place.api.delete(f"{LEASES}/told")

    return lambda story: asyncio.run(run_story(story))


async def manifest(place: OperatorPlace, job_id: str) -> dict[str, Any]:
    return await place.api.get(f"{namespaced(JOBS)}/{job_id.rpartition('/')[2]}")


def test_a_job_is_submitted_listed_explained_and_cancelled(tell):
    async def story(place: OperatorPlace, windlass: Terminal) -> None:
        first = await windlass.done(
            "submit", *IMAGE, "-N", "2", "-G", "2", "--procs", "1", "--name", "big", "--", Behaviour.RUN
        )
        await place.phase(first, "Running")
        second = await windlass.done("submit", *IMAGE, "-G", "1", "--name", "small", "--", Behaviour.RUN)
        await place.until(f"/v1/jobs/{second}", lambda job: job["position"] == 1)

        rows = json.loads(await windlass.done("queue", "-o", "json"))
        assert [(row["id"], row["phase"]) for row in rows] == [(first, "Running"), (second, "Queued")]
        assert f"{first}: 4 gpu" in await windlass.done("why", "small")
        assert (await windlass.done("status", "big")).startswith(f"{first} Running on n1,n2")
        assert "2/2" in await windlass.done("nodes")

        assert await windlass.done("cancel", "big") == f"{first} is being cancelled"
        story = await place.phase(first, "Failed")
        assert story["reason"] == "Cancelled"
        await place.phase(second, "Running")
        assert "Cancelled" in await windlass.done("history")

    tell(story)


def test_an_impossible_job_is_reported_at_submission_and_waits(tell):
    async def story(_place: OperatorPlace, windlass: Terminal) -> None:
        words = ("-N", "2", "-G", "9", "--procs", "1", "--name", "vast", "--", Behaviour.RUN)
        handed_in = await windlass("submit", *IMAGE, *words)

        assert handed_in.code == 0, handed_in
        assert f"warning: {handed_in.out.strip()}: can never run on the existing nodes and queues" in handed_in.err
        assert "largest gang that fits: " in handed_in.err
        assert "largest gang that fits: " in await windlass.done("why", "vast")
        assert (await windlass.done("status", "vast")).partition(" ")[2].startswith("Queued")

    tell(story)


def test_run_returns_the_exit_code_of_its_job(tell):
    async def story(_place: OperatorPlace, windlass: Terminal) -> None:
        succeeded, failed = await asyncio.gather(
            windlass("run", *IMAGE, "-N", "2", "--name", "good", "--", Behaviour.SUCCEED),
            windlass("run", *IMAGE, "--restarts", "0", "--name", "bad", "--", Behaviour.FAIL),
        )

        assert succeeded.code == 0, succeeded
        assert "admitted in" in succeeded.err
        assert "succeeded: waited" in succeeded.err
        assert failed.code == 3, failed

    tell(story)


def test_ctrl_c_detaches_from_a_job_on_the_cluster(tell):
    async def story(place: OperatorPlace, windlass: Terminal) -> None:
        async with windlass.began("run", *IMAGE, "--name", "long", "--", Behaviour.RUN) as process:
            job_id = (await until_says(process, "admitted in")).split()[1]
            process.send_signal(signal.SIGINT)
            await until_says(process, f"detached from {job_id}, which keeps running")
            assert await asyncio.wait_for(process.wait(), strays.TIMEOUT_S) == 130

        assert (await place.get(f"/v1/jobs/{job_id}"))["phase"] in ("Admitted", "Running")

    tell(story)


def test_suspended_jobs_wait_until_they_are_resumed(tell):
    async def story(place: OperatorPlace, windlass: Terminal) -> None:
        job_id = await windlass.done("submit", *IMAGE, "--name", "later", "--", Behaviour.RUN)
        await place.phase(job_id, "Running")

        await windlass.done("suspend", "later")
        await place.phase(job_id, "Suspended")
        await windlass.done("resume", "later")
        await place.phase(job_id, "Running")

    tell(story)


def test_the_folder_is_shipped_in_an_object_owned_by_the_job(tell):
    async def story(place: OperatorPlace, windlass: Terminal) -> None:
        (windlass.folder / "train.py").write_text("print('hello')\n")
        job_id = await windlass.done("submit", *IMAGE, "--ship", ".", "--name", "shipped", "--", Behaviour.RUN)
        await place.phase(job_id, "Running")

        job = await manifest(place, job_id)
        pod = await place.api.get(f"/api/v1/namespaces/default/pods/{job['metadata']['name']}-worker-0")
        held = next(each["configMap"]["name"] for each in pod["spec"]["volumes"] if "configMap" in each)
        code = await place.api.get(f"/api/v1/namespaces/default/configmaps/{held}")
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(code["binaryData"]["code.tar.gz"]))) as archive:
            assert archive.getnames() == ["train.py"]
        assert [owner["uid"] for owner in code["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]
        assert pod["spec"]["initContainers"][0]["image"] == "example.com/job:1"
        await place.api.delete(f"/api/v1/namespaces/default/configmaps/{held}")

    tell(story)


def test_a_manifest_is_created_unchanged_and_followed(tell):
    async def story(_place: OperatorPlace, windlass: Terminal) -> None:
        (windlass.folder / "job.yaml").write_text(PYTORCHJOB)

        ran = await windlass("run", "job.yaml")
        again = await windlass("submit", "job.yaml")

        assert ran.code == 0, ran
        assert "default/pytorchjob/mnist succeeded" in ran.err
        assert again.code == 5
        assert "PyTorchJob default/mnist exists already" in again.err

    tell(story)


def test_a_user_without_permissions_gets_an_error(tell, apiserver: ControlPlane):
    async def story(_place: OperatorPlace, windlass: Terminal) -> None:
        ada = Terminal(apiserver.user("ada"), windlass.folder, windlass.operator)

        ran = await ada("submit", *IMAGE, "--name", "mine", "--", Behaviour.RUN)

        assert ran.code == 77, ran
        assert 'User "ada" cannot create resource "trainingjobs"' in ran.err

    tell(story)


def test_job_states_are_shown_without_the_operator(tell):
    async def story(place: OperatorPlace, windlass: Terminal) -> None:
        job_id = await windlass.done("submit", *IMAGE, "--name", "alone", "--", Behaviour.RUN)
        await place.phase(job_id, "Running")
        windlass.operator = "default/nobody"

        listed, story = await windlass("queue"), await windlass("status", "alone")

        assert "showing the state stored in the objects; this cluster has no Lease default/nobody" in listed.err
        assert job_id in listed.out
        assert "attempt 1 on n1: runs" in story.out

    tell(story)


def test_reservations_are_objects(tell):
    async def story(place: OperatorPlace, windlass: Terminal) -> None:
        words = ("reserve", "repair", "--nodes", "n2", "--for", "2h", "--maintenance")
        try:
            assert "reserved 1 node (n2)" in await windlass.done(*words)
            await place.until("/v1/reservations", lambda answer: answer["reservations"])
            assert "repair" in await windlass.done("reserve")
            assert await windlass.done("reserve", "repair", "--delete") == "reservation repair is deleted"
        except BaseException:
            with contextlib.suppress(ApiError):
                await place.api.delete("/apis/windlass.dev/v1alpha1/reservations/repair")
            raise

    tell(story)
