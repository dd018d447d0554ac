"""A TrainingJob with a begin time: the operator holds its gang until then, and creates no pods of it before."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from backend_host import Behaviour
from kubernetes_host import JOBS, NAMESPACE, namespaced
from operator_place import OperatorPlace, leading

import strays
from windlass.controlplane.api import ApiError
from windlass.controlplane.cluster import ControlPlane
from windlass.core.model.job import Job, Role
from windlass.jobs.kubernetes.manifests.trainingjob_manifest import training_job

pytestmark = pytest.mark.apiserver


async def submit(place: OperatorPlace, begin: int) -> None:
    role = Role(resources={"gpu": 1}, command=(Behaviour.RUN.value,), image="example.com/job:1")
    manifest = training_job(Job("late", (role,), workdir="", begin=begin), "late", NAMESPACE)
    await place.api.post(namespaced(JOBS), manifest)


def test_a_gang_is_held_until_its_begin_time(apiserver: ControlPlane, tmp_path: Path) -> None:
    async def run() -> None:
        place = leading(apiserver, tmp_path, reasons=True)
        async with asyncio.timeout(strays.TIMEOUT_S * 4), place as leader:
            begin = 1000 * (int(time.time()) + 5)
            await submit(leader, begin)
            job = await leader.until("/v1/jobs/late", lambda job: job["reason"] == "AdmissionGated")
            assert job["message"].startswith("waits for its begin time ")
            assert (job["eta"], job["certainty"]) == (begin, "earliest")
            why = (await leader.get("/v1/jobs/late/why"))["explanation"]
            assert why["not_before"] == why["expected"] == begin
            assert not (await leader.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods"))["items"]
            started = await leader.phase("late", "Running")
            assert started["admitted_at"] >= begin
            await leader.delete("late")

    asyncio.run(run())


def test_a_word_that_means_another_time_at_each_reading_is_refused(apiserver: ControlPlane, tmp_path: Path) -> None:
    async def run() -> None:
        place = leading(apiserver, tmp_path, reasons=True)
        async with asyncio.timeout(strays.TIMEOUT_S * 4), place as leader:
            spec = {"command": ["a"], "image": "example.com/job:1", "begin": "now+1hour"}
            about = {"apiVersion": "windlass.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "word"}}
            with pytest.raises(ApiError, match=r"spec\.begin"):
                await leader.api.post(namespaced(JOBS), {**about, "spec": spec})

    asyncio.run(run())
