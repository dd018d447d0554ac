"""Schedules on a real API server: CronJobs that are created, listed, suspended, run at once and deleted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from windlass.controlplane.api import Api
from windlass.controlplane.cluster import ControlPlane

from .cluster_terminal import Terminal

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(300)]
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
SERVICES = "/api/v1/namespaces/default/services"
SUBMIT = ("submit", "--cron", "0 3 * * *", "--time-zone", "Europe/Berlin", "--image", "example.com/job:1")


def test_a_schedule_is_a_cron_job_of_its_user(apiserver: ControlPlane, tmp_path: Path) -> None:
    async def story() -> None:
        windlass = Terminal(apiserver.kubeconfig, tmp_path)
        async with Api(apiserver.admin) as api:
            job = (*SUBMIT[1:], "--name", "nightly", "-N", "2", "--", "true")
            rendered = json.loads(await windlass.done("render", "--for", "kubernetes", "-o", "json", *job))
            tried = await api.post(CRON_JOBS, rendered["items"][0], dryRun="All")
            assert await windlass.done("submit", *job) == "nightly"
            made = await api.get(f"{CRON_JOBS}/nightly")
            assert tried["spec"] == made["spec"], "render prints what submit creates"
            service = await api.get(f"{SERVICES}/nightly")
            assert service["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
            again = await windlass(*SUBMIT, "--name", "nightly", "--", "true")
            assert "windlass: there is a CronJob 'nightly' already\nchoose another --name" in again.err

            [row] = json.loads(await windlass.done("queue", "--schedules", "-o", "json"))
            assert (row["name"], row["cron"], row["policy"]) == ("nightly", "0 3 * * *", "skip")
            assert (await windlass.done("status", "nightly")).startswith(
                "nightly: Scheduled, 0 3 * * * (Europe/Berlin)"
            )
            assert await windlass.done("suspend", "nightly") == "schedule nightly is suspended"
            assert (await api.get(f"{CRON_JOBS}/nightly"))["spec"]["suspend"] is True
            assert await windlass.done("resume", "nightly") == "schedule nightly is resumed"

            run = await windlass.done("submit", "--from", "nightly")
            job = await api.get(f"{JOBS}/{run}")
            assert job["metadata"]["ownerReferences"][0]["name"] == "nightly"
            assert job["spec"]["template"]["spec"]["schedulerName"] == "windlass"

            assert await windlass.done("cancel", "nightly") == "schedule nightly is deleted"
            assert json.loads(await windlass.done("queue", "--schedules", "-o", "json")) == []
            deleted = await api.get(f"{CRON_JOBS}/nightly")  # the API server alone collects no garbage
            assert deleted["metadata"]["finalizers"] == ["orphan"], "the run goes on"
            service = await api.get(f"{SERVICES}/nightly")
            assert service["metadata"]["ownerReferences"][0]["name"] == run, "its pods keep their names"
            await api.patch(f"{CRON_JOBS}/nightly", {"metadata": {"finalizers": None}})
            await api.delete(f"{SERVICES}/nightly")
            await api.delete(f"{JOBS}/{run}", propagationPolicy="Background")

    asyncio.run(story())


def test_mistakes_get_one_clear_error(apiserver: ControlPlane, tmp_path: Path) -> None:
    async def story() -> None:
        windlass = Terminal(apiserver.kubeconfig, tmp_path)
        missing = await windlass("submit", "--from", "weekly")
        assert "there is no schedule 'weekly'" in missing.err
        waits = await windlass(*SUBMIT, "--cron-policy", "queue", "--", "true")
        assert "a CronJob lets no run wait; write skip or replace" in waits.err
        shipped = await windlass(*SUBMIT[:5], "--", "python", "train.py")
        assert "needs an image" in shipped.err or "outlives shipped code" in shipped.err
        once = await windlass("run", *SUBMIT[1:], "--", "true")
        assert "submit it with windlass submit, or leave out cron" in once.err

    asyncio.run(story())
