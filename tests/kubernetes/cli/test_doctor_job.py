"""`windlass doctor JOB` on a cluster: logs, states of containers, events, and the reason of a job that waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from backend_host import Behaviour
from kubernetes_host import NAMESPACE, namespaced
from node_logs import logs_of_nodes
from operator_place import PYTORCHJOBS, OperatorPlace, leading
from restarted_member import backing_off, gang, restart

import strays
from windlass.controlplane.cluster import ControlPlane

from .cluster_terminal import Terminal

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(300)]
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
IMAGE = ("--image", "example.com/job:1", "--procs", "1")
Story = Callable[[OperatorPlace, Terminal], Awaitable[None]]


def log_of(pod: str) -> str:
    steps = "".join(f"2026-01-01T00:00:00Z step {number}: {'x' * 200}\n" for number in range(3_000))
    last = "ModuleNotFoundError: No module named 'einops'" if pod.endswith("-1") else "waiting for rank 1"
    return f"{steps}2026-01-01T00:01:00Z {last}\n"


@pytest.fixture
def tell(apiserver: ControlPlane, tmp_path: Path) -> Callable[[Story], None]:
    async def run_story(story: Story) -> None:
        folder = tmp_path / "project"
        folder.mkdir()
        async with (
            asyncio.timeout(strays.TIMEOUT_S * 6),
            leading(apiserver, tmp_path) as place,
            logs_of_nodes(apiserver, place.api, log_of),
        ):
            about = {"name": "told", "annotations": {"windlass.dev/address": f"http://127.0.0.1:{place.port}"}}
            await place.api.post(LEASES, {"metadata": about, "spec": {}})
            try:
                await story(place, Terminal(apiserver.kubeconfig, folder, "default/told"))
            finally:
                await place.api.delete(f"{LEASES}/told")

    return lambda story: asyncio.run(run_story(story))


def test_a_failed_job_and_a_waiting_one_are_diagnosed(tell: Callable[[Story], None]):
    async def story(place: OperatorPlace, windlass: Terminal) -> None:
        ran = await windlass("run", *IMAGE, "-N", "2", "--restarts", "0", "--name", "bad", "--", Behaviour.FAIL)
        assert ran.code, ran
        assert "lacks a package: einops" in ran.err
        found = await windlass("doctor", "bad", "-o", "json")
        verdict = json.loads(found.out)["verdict"]
        assert (found.code, verdict["rule"], verdict["rank"]) == (1, "package-missing", 1)
        assert "pod" in verdict["evidence"][0]["source"]

        big = await windlass.done("submit", *IMAGE, "-N", "2", "-G", "2", "--name", "big", "--", Behaviour.RUN)
        await place.phase(big, "Running")
        runs = await windlass("doctor", "big", "-o", "json")
        job = json.loads(runs.out)["job"]
        assert (job["phase"], job["attempt"]) == ("Running", 1), runs
        assert [(each["rank"], each["node"] != "") for each in job["ranks"]] == [(0, True), (1, True)]
        assert job["next_commands"][0].startswith(f"windlass logs {job['id']} --rank ")
        await windlass.done("submit", *IMAGE, "-G", "1", "--name", "small", "--", Behaviour.RUN)
        waits = await windlass("doctor", "small", "-o", "json")
        assert json.loads(waits.out)["verdict"]["cause"] in ("insufficient-gpu", "queue-waiting"), waits

    tell(story)


def test_states_of_containers_and_events_are_evidence(tell: Callable[[Story], None]):
    async def story(place: OperatorPlace, windlass: Terminal) -> None:
        job = await windlass.done("submit", *IMAGE, "--name", "stuck", "--", Behaviour.RUN)
        await place.phase(job, "Running")
        [pod] = (await place.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods"))["items"]
        about = {"kind": "Pod", "namespace": NAMESPACE, "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        message = 'MountVolume.SetUp failed for volume "data" : mount failed: exit status 32'
        event = {"metadata": {"name": "late"}, "involvedObject": about, "type": "Warning", "reason": "FailedMount"}
        await place.api.post(f"/api/v1/namespaces/{NAMESPACE}/events", {**event, "message": message})
        own = {**event, "metadata": {"name": "told"}, "reportingComponent": "windlass.dev/operator"}
        xid = {**own, "source": {"component": "windlass.dev/operator"}, "message": "NVRM: Xid 79, GPU has fallen off"}
        await place.api.post(f"/api/v1/namespaces/{NAMESPACE}/events", xid)
        found = await windlass("doctor", "stuck", "-o", "json")
        assert "Xid 79" not in found.out, "what the operator itself has written is no evidence"
        assert json.loads(found.out)["verdict"]["cause"] in ("volume-mount", "package-missing"), found

    tell(story)


def test_a_rank_that_its_kubelet_restarts_is_named_with_its_last_end(tell: Callable[[Story], None]):
    async def story(place: OperatorPlace, windlass: Terminal) -> None:
        await place.api.post(namespaced(PYTORCHJOBS), gang())
        await place.phase("digits", "Running")
        text = "back-off 40s restarting failed container=pytorch pod=digits-worker-0_default(u)"
        await restart(place, 3, backing_off(text), datetime.now(UTC), exitCode=77, reason="Error")
        await place.until("/v1/jobs/digits", lambda job: job["member_wait"])
        told = "rank 1 (container pytorch of digits-worker-0) ends again and again: 3 restarts since "
        for verb in ("status", "why", "doctor"):
            ran = await windlass(verb, "digits")
            assert told in ran.out, ran
            assert "last exit code 77 (Error) at " in ran.out
            assert "next start at " in ran.out
        assert "restarts a container of the job in place, again and again: that of rank 1" in ran.out, ran

    tell(story)
