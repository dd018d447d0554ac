"""Schedules on a real API server: CronTrainingJobs and CronJobs are created, listed, suspended, run, deleted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from kubernetes_host import create_definitions

import strays
from windlass.controlplane.api import Api
from windlass.controlplane.cluster import ControlPlane

from .cluster_terminal import Terminal

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(300)]
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
SERVICES = "/api/v1/namespaces/default/services"
VERSION = "/apis/windlass.dev/v1alpha1"
TRAINING_SCHEDULES = f"{VERSION}/namespaces/default/crontrainingjobs"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/crontrainingjobs.windlass.dev"
SUBMIT = ("submit", "--cron", "0 3 * * *", "--time-zone", "Europe/Berlin", "--image", "example.com/job:1")


async def without_the_kind(api: Api) -> None:
    """Removes the definition of CronTrainingJobs, and waits until the API server no longer serves them."""
    await create_definitions(api)
    await api.delete(DEFINITION)
    async with asyncio.timeout(strays.TIMEOUT_S):
        while "crontrainingjobs" in {each["name"] for each in (await api.get(VERSION))["resources"]}:  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.05)


def test_a_schedule_is_a_cron_training_job_of_its_user(apiserver: ControlPlane, tmp_path: Path) -> None:
    async def story() -> None:
        windlass = Terminal(apiserver.kubeconfig, tmp_path)
        async with Api(apiserver.admin) as api:
            await create_definitions(api)
            fields = ("--cron-policy", "queue", "-N", "2", "--priority", "5")
            job = (*SUBMIT[1:], *fields, "--name", "nightly", "--", "true")
            rendered = json.loads(await windlass.done("render", "--for", "kubernetes", "-o", "json", *job))
            [item] = rendered["items"]
            tried = await api.post(TRAINING_SCHEDULES, item, dryRun="All")
            ran = await windlass("submit", *job)
            assert (ran.code, ran.out, ran.err) == (0, "nightly\n", "")
            made = await api.get(f"{TRAINING_SCHEDULES}/nightly")
            assert tried["spec"] == made["spec"], "render prints what submit creates"
            assert made["metadata"]["annotations"]["windlass.dev/user"] == "admin"
            spec = made["spec"]
            assert (spec["timeZone"], spec["concurrencyPolicy"]) == ("Europe/Berlin", "Queue")
            assert (spec["jobTemplate"]["spec"]["nodes"], spec["jobTemplate"]["spec"]["priority"]) == (2, 5)
            assert await cron_jobs(api) == []

            again = await windlass("submit", *job)
            assert "windlass: there is a CronTrainingJob 'nightly' already\nchoose another --name" in again.err
            two = tmp_path / "two.yaml"
            same = 'command: "true"\nimage: a:1\ncron: "@daily"\n'
            two.write_text(f"name: hourly\n{same}---\nname: nightly\n{same}")
            assert "there is a CronTrainingJob 'nightly' already" in (await windlass("submit", str(two))).err
            names = [row["name"] for row in json.loads(await windlass.done("queue", "--schedules", "-o", "json"))]
            assert names == ["nightly"], "all schedules of a file are created, or none"
            secret = ("--name", "secretive", *SUBMIT[1:], "-f", "-")
            lacking = "command: 'true'\npod: {spec: {imagePullSecrets: [{name: absent}]}}\n"
            warned = await windlass("submit", *secret, given=lacking.encode())
            assert "warning: there is no Secret absent: its images are pulled without it" in warned.err
            for name in ("nightly", "secretive"):
                await api.delete(f"{TRAINING_SCHEDULES}/{name}")

    asyncio.run(story())


async def cron_jobs(api: Api) -> list[str]:
    return [each["metadata"]["name"] for each in (await api.get(CRON_JOBS))["items"]]


def test_a_schedule_is_a_cron_job_where_the_kind_is_missing(apiserver: ControlPlane, tmp_path: Path) -> None:
    async def story() -> None:
        windlass = Terminal(apiserver.kubeconfig, tmp_path)
        async with Api(apiserver.admin) as api:
            await without_the_kind(api)
            job = (*SUBMIT[1:], "--name", "nightly", "-N", "2", "--", "true")
            rendered = json.loads(await windlass.done("render", "--for", "cronjob", "-o", "json", *job))
            tried = await api.post(CRON_JOBS, rendered["items"][0], dryRun="All")
            ran = await windlass("submit", *job)
            assert (ran.code, ran.out) == (0, "nightly\n")
            assert "windlass: this cluster lacks the kind CronTrainingJob: the schedule is a CronJob" in ran.err
            made = await api.get(f"{CRON_JOBS}/nightly")
            assert tried["spec"] == made["spec"], "render prints what submit creates"
            service = await api.get(f"{SERVICES}/nightly")
            assert service["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
            again = await windlass(*SUBMIT, "--name", "nightly", "--", "true")
            assert "windlass: there is a CronJob 'nightly' already\nchoose another --name" in again.err
            await create_definitions(api)
            other = await windlass(*SUBMIT, "--name", "nightly", "--", "true")
            assert "windlass: there is a CronJob 'nightly' already" in other.err, "one name has one schedule"

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
        waits = await windlass("render", "--for", "cronjob", *SUBMIT[1:], "--cron-policy", "queue", "--", "true")
        assert "a CronJob lets no run wait; write skip or replace" in waits.err
        shipped = await windlass(*SUBMIT[:5], "--", "python", "train.py")
        assert "needs an image" in shipped.err or "a schedule outlives shipped code" in shipped.err
        once = await windlass("run", *SUBMIT[1:], "--", "true")
        assert "submit it with windlass submit, or leave out cron" in once.err

    asyncio.run(story())
