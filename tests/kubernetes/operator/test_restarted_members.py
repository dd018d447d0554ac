"""A running job of which a kubelet restarts a member in place, by statuses as kubelets write them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kubernetes_host import NAMESPACE, namespaced
from operator_place import PYTORCHJOBS, OperatorPlace, leading
from restarted_member import backing_off, gang, restart, written
from verdict_conditions import condition_of, event_with

import strays
from windlass.controlplane.cluster import ControlPlane
from windlass.core.model.moments import format_moment_utc
from windlass.server.operator.endpoints import EndpointSettings

pytestmark = pytest.mark.apiserver

QUICK = EndpointSettings(open_queries=True, diagnoses_waits_after_s=0.5)


def tell(apiserver: ControlPlane, tmp_path: Path, story: Callable[[OperatorPlace], Awaitable[None]]) -> None:
    async def run() -> None:
        place = leading(apiserver, tmp_path, reasons=True, settings=QUICK)
        async with asyncio.timeout(strays.TIMEOUT_S * 4), place as leader:
            await leader.api.post(namespaced(PYTORCHJOBS), gang())
            await leader.phase("pytorchjob/digits", "Running")
            await story(leader)

    asyncio.run(run())


def test_a_crash_loop_has_a_verdict_the_last_end_and_the_next_start(apiserver: ControlPlane, tmp_path: Path) -> None:
    async def story(place: OperatorPlace) -> None:
        ended = datetime.now(UTC)
        text = f"back-off 40s restarting failed container=pytorch pod=digits-worker-0_{NAMESPACE}(u)"
        await restart(place, 3, backing_off(text), ended, exitCode=139, reason="Error")
        job = await place.until("/v1/jobs/pytorchjob/digits", lambda job: job["wait_diagnosis"])
        # the job runs on, and its record names the rank, the end and the next start
        assert job["phase"] == "Running"
        wait = job["member_wait"]
        assert wait["reason"] == "CrashLoopBackOff"
        about = "rank 1 (container pytorch of digits-worker-0) ends again and again: 3 restarts since "
        assert wait["message"].startswith(about)
        assert "last exit code 139 (Error) at " in wait["message"]
        starts = format_moment_utc(int(ended.timestamp() + 40) * 1000)
        assert wait["message"].endswith(f"next start at {starts}")
        why = await place.get("/v1/jobs/pytorchjob/digits/why")
        assert (why["members"], why["container_restarts"]) == (wait, 3)
        # the verdict is in the object and an Event
        shown = await condition_of(place, "digits", PYTORCHJOBS)
        assert shown["status"] == "True"
        assert job["wait_diagnosis"]["text"] in shown["message"]
        await event_with(place, "PyTorchJobDiagnosed", shown["message"])
        # it stays while the container runs for a moment
        running = {"running": {"startedAt": written(datetime.now(UTC))}}
        await restart(place, 4, running, ended, exitCode=139, reason="Error")
        job = await place.until("/v1/jobs/pytorchjob/digits", lambda job: "4 restarts" in str(job["member_wait"]))
        assert job["member_wait"]["reason"] == "RestartedInPlace"
        assert job["wait_diagnosis"]

    tell(apiserver, tmp_path, story)


def test_a_container_that_exceeds_its_memory_again_and_again_is_named_so(
    apiserver: ControlPlane, tmp_path: Path
) -> None:
    async def story(place: OperatorPlace) -> None:
        killed = {"exitCode": 137, "reason": "OOMKilled"}
        await restart(place, 2, backing_off("back-off 20s restarting"), datetime.now(UTC), **killed)
        job = await place.until("/v1/jobs/pytorchjob/digits", lambda job: job["wait_diagnosis"])
        assert "memory" in job["wait_diagnosis"]["text"]
        assert "last exit code 137 (OOMKilled)" in job["member_wait"]["message"]

    tell(apiserver, tmp_path, story)


def test_the_verdict_ends_with_the_restarts(apiserver: ControlPlane, tmp_path: Path) -> None:
    async def story(place: OperatorPlace) -> None:
        ended = datetime.now(UTC) - timedelta(hours=1)
        await restart(place, 3, backing_off("back-off 40s restarting"), ended, exitCode=1, reason="Error")
        await place.until("/v1/jobs/pytorchjob/digits", lambda job: job["wait_diagnosis"])
        steady = {"running": {"startedAt": written(ended + timedelta(seconds=40))}}
        await restart(place, 4, steady, ended, exitCode=1, reason="Error")
        job = await place.until("/v1/jobs/pytorchjob/digits", lambda job: not job["wait_diagnosis"])
        assert job["member_wait"] is None

    tell(apiserver, tmp_path, story)
