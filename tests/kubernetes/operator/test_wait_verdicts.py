"""A job that waits for what only a person can change has a verdict while it waits, and does not end by it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from backend_host import Behaviour
from kubernetes_host import JOBS, NAMESPACE, namespaced
from operator_place import PYTORCHJOBS, OperatorPlace, leading
from verdict_conditions import condition_of, event_with, no_condition_of, verdicts_of

import strays
from windlass.controlplane.cluster import ControlPlane
from windlass.core.model.job import Job, RestartPolicy, Role
from windlass.jobs.kubernetes.manifests.trainingjob_manifest import training_job
from windlass.server.operator.endpoints import EndpointSettings

pytestmark = pytest.mark.apiserver

QUICK = EndpointSettings(open_queries=True, diagnoses_waits_after_s=0.5)
CLAIMS, QUOTAS = namespaced("/api/v1/persistentvolumeclaims"), namespaced("/api/v1/resourcequotas")
QUEUES = "/apis/windlass.dev/v1alpha1/queues"
Story = Callable[[OperatorPlace], Awaitable[None]]


@pytest.fixture
def tell(apiserver: ControlPlane, tmp_path: Path) -> Callable[[Story], None]:
    """Run a coroutine with an operator that diagnoses waits soon; pods wait for images without end."""

    def run(story: Story) -> None:
        async def run_scenario() -> None:
            place = leading(apiserver, tmp_path, reasons=True, settings=QUICK, image_pull_timeout=600_000)
            async with asyncio.timeout(strays.TIMEOUT_S * 4), place as leader:
                await story(leader)

        asyncio.run(run_scenario())

    return run


def with_claim(name: str, claim: str) -> dict[str, Any]:
    """A PyTorchJob of one worker that mounts a claim."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
    main = {"name": "pytorch", "image": "example.com/job:1", "command": [Behaviour.RUN.value]}
    template = {"spec": {"containers": [main], "volumes": [volume]}}
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "restartPolicy": "Never", "template": template}}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}, "spec": spec}


def test_an_image_that_cannot_be_pulled_is_told_while_its_pods_wait(tell: Callable[[Story], None]) -> None:
    async def story(place: OperatorPlace) -> None:
        await place.submit("digits", Behaviour.UNSTARTABLE)
        found = await condition_of(place, "digits")
        assert (found["status"], found["reason"]) == ("True", "ImagePull")
        assert found["message"].startswith("attempt 1 waits: ")
        await event_with(place, "TrainingJobDiagnosed", found["message"])
        job = await place.get("/v1/jobs/digits")
        assert (job["phase"], job["wait_diagnosis"]["rule"], job["diagnosis"]) == ("Admitted", "image-pull", None)

    tell(story)


def test_an_attempt_that_ends_by_the_start_timeout_is_blamed_on_its_image(tell: Callable[[Story], None]) -> None:
    async def story(place: OperatorPlace) -> None:
        role = Role(resources={"gpu": 1}, command=(Behaviour.UNSTARTABLE.value,), image="example.com/job:1")
        limits = RestartPolicy(infrastructure_limit=0)
        job = Job("digits", (role,), workdir="", user="ada", start_timeout=4_000, restart=limits)
        await place.api.post(namespaced(JOBS), training_job(job, "digits", NAMESPACE))
        ended = await place.until("/v1/jobs/digits", lambda job: job["diagnosis"])
        assert (ended["phase"], ended["reason"]) == ("Failed", "StartTimeout")
        assert (ended["diagnosis"]["rule"], ended["diagnosis"]["generation"]) == ("image-pull", 1)

    tell(story)


def test_a_missing_claim_is_told_until_it_is_there(tell: Callable[[Story], None]) -> None:
    async def story(place: OperatorPlace) -> None:
        await place.api.post(namespaced(PYTORCHJOBS), with_claim("digits", "datasets"))
        found = await condition_of(place, "digits", PYTORCHJOBS)
        assert (found["reason"], found["message"].partition(": ")[0]) == ("VolumeClaim", "waits")
        assert "there is no PersistentVolumeClaim datasets" in found["message"]
        await event_with(place, "PyTorchJobDiagnosed", found["message"])
        assert (await place.get("/v1/jobs/digits"))["wait_diagnosis"]["rule"] == "volume-claim"
        size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        volume = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}}
        claim = {"metadata": {"name": "datasets"}, "spec": {**size, "volumeName": "datasets", "storageClassName": ""}}
        await place.api.post("/api/v1/persistentvolumes", {"metadata": {"name": "datasets"}, "spec": volume})
        try:
            await place.api.post(CLAIMS, claim)
            await place.phase("digits", "Running")
            await no_condition_of(place, "digits", PYTORCHJOBS)
        finally:
            await place.api.delete(f"{CLAIMS}/datasets")
            await place.api.delete("/api/v1/persistentvolumes/datasets")

    tell(story)


def test_a_resource_quota_that_refuses_the_pods_is_told(tell: Callable[[Story], None]) -> None:
    async def story(place: OperatorPlace) -> None:
        quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "0"}}}
        await place.api.post(QUOTAS, quota)
        await place.api.patch(f"{QUOTAS}/small/status", {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}})
        try:
            await place.submit("digits")
            found = await condition_of(place, "digits")
            assert found["reason"] == "QuotaExceeded", found
            assert "exceeded quota: small" in found["message"]
        finally:
            await place.api.delete(f"{QUOTAS}/small")

    tell(story)


def test_a_job_larger_than_its_queue_may_ever_hold_is_told(tell: Callable[[Story], None]) -> None:
    async def story(place: OperatorPlace) -> None:
        queue = {"apiVersion": "windlass.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "small"}}
        await place.api.post(QUEUES, {**queue, "spec": {"quota": {"gpu": 1}, "namespaceSelector": {}}})
        try:
            role = Role(resources={"gpu": 2}, command=(Behaviour.RUN.value,), image="example.com/job:1")
            job = Job("digits", (role,), workdir="", user="ada", queue="small")
            await place.api.post(namespaced(JOBS), training_job(job, "digits", NAMESPACE))
            found = await condition_of(place, "digits")
            assert found["reason"] == "QueueQuotaTooSmall", found
            assert found["message"].startswith("waits: The queue can never hold the job: asks for 2 gpu, ")
            job_line = await place.get("/v1/jobs/digits")
            assert (job_line["phase"], job_line["reason"]) == ("Queued", "ExceedsMaxQuota")
        finally:
            await place.api.delete(f"{QUEUES}/small")

    tell(story)


def test_a_job_that_waits_for_its_turn_has_no_verdict(tell: Callable[[Story], None]) -> None:
    async def story(place: OperatorPlace) -> None:
        await place.submit("big", gpus=2, replicas=2)
        await place.phase("big", "Running")
        await place.submit("next")
        await place.until("/v1/jobs/next", lambda job: job["position"] == 1)
        await asyncio.sleep(2)
        assert (await place.get("/v1/jobs/next"))["wait_diagnosis"] is None

    tell(story)


def test_the_next_leader_keeps_the_verdicts_and_announces_none_again(tell: Callable[[Story], None]) -> None:
    async def story(place: OperatorPlace) -> None:
        await place.api.post(namespaced(PYTORCHJOBS), with_claim("held", "datasets"))
        await place.submit("stuck", Behaviour.UNSTARTABLE)
        shown = [await condition_of(place, "held", PYTORCHJOBS), await condition_of(place, "stuck")]
        await event_with(place, "PyTorchJobDiagnosed", shown[0]["message"])
        await event_with(place, "TrainingJobDiagnosed", shown[1]["message"])
        assert place.successor is not None
        place = await place.successor()
        read = await place.until("/v1/jobs/stuck", lambda job: job["wait_diagnosis"])
        assert (read["wait_diagnosis"]["rule"], read["wait_diagnosis"]["generation"]) == ("image-pull", 1)
        await place.until("/v1/jobs/stuck", lambda job: (job["wait_diagnosis"] or {}).get("fix"))
        await place.until("/v1/jobs/held", lambda job: (job["wait_diagnosis"] or {}).get("fix"))
        await asyncio.sleep(3)  # the time of a write of a status
        kept = [await condition_of(place, "held", PYTORCHJOBS), await condition_of(place, "stuck")]
        assert kept == shown
        assert await verdicts_of(place, "PyTorchJob", "held") == [1]
        assert await verdicts_of(place, "TrainingJob", "stuck") == [1]

    tell(story)
