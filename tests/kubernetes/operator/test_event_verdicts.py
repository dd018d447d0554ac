"""Obstacles that only Events name have a verdict while the job waits. Events of kubelets are written by the tests."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from backend_host import Behaviour
from kubernetes_host import JOBS, NAMESPACE, namespaced
from operator_place import PYTORCHJOBS, OperatorPlace, leading
from planes.tidy import clear
from verdict_conditions import condition_of, event_with, no_condition_of, verdicts_of

import strays
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_pod import Script
from windlass.core.model.job import Job, Role
from windlass.jobs.kubernetes.manifests.trainingjob_manifest import training_job
from windlass.server.operator.endpoints import EndpointSettings
from windlass.server.operator.serving_certificate import make_certificate, server_context

pytestmark = pytest.mark.apiserver

QUICK = EndpointSettings(open_queries=True, diagnoses_waits_after_s=0.5)
EVENTS, PODS = f"/api/v1/namespaces/{NAMESPACE}/events", namespaced("/api/v1/pods")
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MPI_KIND = "/apis/kubeflow.org/v2beta1/mpijobs"
MPIJOBS, BATCH_JOBS = namespaced(MPI_KIND), namespaced("/apis/batch/v1/jobs")
NO_MOUNT = 'MountVolume.SetUp failed for volume "data" : mount failed: exit status 32'
NO_ATTACHMENT = 'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) train-0'
NO_NETWORK = 'Failed to create pod sandbox: plugin type="calico" failed (add): no address is left in the pool'
Story = Callable[[OperatorPlace], Awaitable[None]]


@pytest.fixture
def tell(apiserver: ControlPlane, tmp_path: Path) -> Callable[[Story], None]:
    """Run a coroutine with an operator that diagnoses waits soon; no pod starts."""

    def run(story: Story) -> None:
        async def run_scenario() -> None:
            place = leading(
                apiserver, tmp_path, script_of=lambda _pod: Script(start=3_600), reasons=True, settings=QUICK
            )
            async with asyncio.timeout(strays.TIMEOUT_S * 4), place as leader:
                await story(leader)

        asyncio.run(run_scenario())

    return run


async def first_of(place: OperatorPlace, path: str, job: str) -> dict[str, Any]:
    """The first object of a job at a path, once it exists."""
    async with asyncio.timeout(strays.TIMEOUT_S):
        while True:
            found = [each for each in (await place.api.get(path))["items"] if each["metadata"]["name"].startswith(job)]
            if found:
                return dict(found[0])
            await asyncio.sleep(0.05)


async def write_event(
    place: OperatorPlace, about: dict[str, Any], reason: str, message: str, kind: str = "Warning", of: str = "Pod"
) -> None:
    """Writes an Event about an object as the kubelet does."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = about["metadata"]
    referred = {"kind": of, "namespace": NAMESPACE, "name": metadata["name"], "uid": metadata["uid"]}
    body = {
        "metadata": {"generateName": f"{metadata['name']}."},
        "involvedObject": referred,
        "type": kind,
        "reason": reason,
        "message": message,
        "source": {"component": "kubelet", "host": "n1"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    await place.api.post(EVENTS, body)


@pytest.mark.parametrize(
    ("reason", "message", "verdict"),
    [
        ("FailedMount", NO_MOUNT, "VolumeMount"),
        ("FailedMount", 'MountVolume.SetUp failed for volume "a" : configmap "scripts" not found', "ConfigMissing"),
        ("FailedAttachVolume", NO_ATTACHMENT, "VolumeMount"),
        ("FailedCreatePodSandBox", NO_NETWORK, "PodSandbox"),
    ],
    ids=["mount", "configmap", "attach", "sandbox"],
)
def test_an_event_about_a_pod_that_does_not_start_has_a_verdict(
    tell: Callable[[Story], None], reason: str, message: str, verdict: str
) -> None:
    async def story(place: OperatorPlace) -> None:
        await place.submit("digits")
        pod = await first_of(place, PODS, "digits")
        await write_event(place, pod, "Scheduled", "Successfully assigned it to n1", "Normal")
        await write_event(place, pod, reason, message)
        found = await condition_of(place, "digits")
        assert (found["status"], found["reason"]) == ("True", verdict), found
        assert found["message"].startswith("attempt 1 waits: ")
        await event_with(place, "TrainingJobDiagnosed", found["message"])
        job = await place.get("/v1/jobs/digits")
        assert (job["phase"], job["wait_diagnosis"]["generation"]) == ("Admitted", 1)
        await asyncio.sleep(1)  # the time of a second of Events, which are told apart by seconds
        await write_event(place, pod, "Pulling", "Pulling image", "Normal")
        await no_condition_of(place, "digits")

    tell(story)


def test_words_of_another_scheduler_in_events_alone_have_a_verdict(tell: Callable[[Story], None]) -> None:
    async def story(place: OperatorPlace) -> None:
        main = {"name": "pytorch", "image": "example.com/job:1", "command": [Behaviour.RUN.value]}
        template = {"spec": {"containers": [main], "schedulerName": "own-scheduler"}}
        replicas = {"Worker": {"replicas": 1, "restartPolicy": "Never", "template": template}}
        about = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "digits"}}
        await place.api.post(namespaced(PYTORCHJOBS), {**about, "spec": {"pytorchReplicaSpecs": replicas}})
        pod = await first_of(place, PODS, "digits")
        message = "0/2 nodes are available: 2 node(s) had untolerated taint {nvidia.com/gpu: }."
        await write_event(place, pod, "FailedScheduling", message)
        found = await condition_of(place, "digits", PYTORCHJOBS)
        assert found["reason"].startswith("Taint"), found

    tell(story)


def test_the_next_leader_keeps_a_verdict_by_events(tell: Callable[[Story], None]) -> None:
    async def story(place: OperatorPlace) -> None:
        await place.submit("kept")
        await write_event(place, await first_of(place, PODS, "kept"), "FailedMount", NO_MOUNT)
        shown = await condition_of(place, "kept")
        await event_with(place, "TrainingJobDiagnosed", shown["message"])
        assert place.successor is not None
        place = await place.successor()
        await place.until("/v1/jobs/kept", lambda job: (job["wait_diagnosis"] or {}).get("fix"))
        await asyncio.sleep(3)  # the time of a write of a status
        assert await condition_of(place, "kept") == shown
        assert await verdicts_of(place, "TrainingJob", "kept") == [1]

    tell(story)


@asynccontextmanager
async def denying_webhook(place: OperatorPlace) -> AsyncIterator[None]:
    """A webhook that denies every new pod, for as long as the block lasts."""
    certificate, key = make_certificate(["localhost"], datetime.now(UTC))

    async def deny(request: web.Request) -> web.Response:
        review = await request.json()
        answer = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": "no team label"}}
        return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer})

    application = web.Application()
    application.router.add_post("/", deny)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "localhost", 0, ssl_context=server_context(certificate, key))
    await site.start()
    address = f"https://localhost:{runner.addresses[0][1]}/"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {
        "name": "deny.example.com",
        "rules": [rule],
        "clientConfig": {"url": address, "caBundle": base64.b64encode(certificate).decode()},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    await place.api.post(WEBHOOKS, {"metadata": {"name": "deny"}, "webhooks": [hook]})
    try:
        yield
    finally:
        await place.api.delete(f"{WEBHOOKS}/deny")
        await runner.cleanup()


def test_a_webhook_that_denies_the_pods_is_told(tell: Callable[[Story], None]) -> None:
    async def story(place: OperatorPlace) -> None:
        async with denying_webhook(place):
            big = Job("denied", (Role(resources={"gpu": 9}, command=(Behaviour.RUN.value,), image="a:1"),), workdir="")
            await place.api.post(namespaced(JOBS), training_job(big, "denied", NAMESPACE))
            found = await condition_of(place, "denied")
            assert found["reason"] == "AdmissionWebhook", found
            assert 'admission webhook "deny.example.com" denied the request: no team label' in found["message"]

    tell(story)


def test_pods_that_a_webhook_denies_after_the_admission_of_their_job_are_told(tell: Callable[[Story], None]) -> None:
    async def story(place: OperatorPlace) -> None:
        async with denying_webhook(place):
            await place.submit("refused")
            found = await condition_of(place, "refused")
            assert found["reason"] == "AdmissionWebhook", found
            assert found["message"].startswith("attempt 1: "), "it waits for nothing: its attempt has ended"
            assert (await place.get("/v1/jobs/refused"))["phase"] == "Failed"

    tell(story)


def test_a_launcher_whose_pod_its_job_cannot_create_is_told(tell: Callable[[Story], None]) -> None:
    async def story(place: OperatorPlace) -> None:
        main = {"name": "mpi", "image": "example.com/job:1", "command": [Behaviour.RUN.value]}
        replicas = {
            role: {"replicas": 1, "template": {"spec": {"containers": [main]}}} for role in ("Launcher", "Worker")
        }
        about = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "pi"}}
        try:
            await place.api.post(MPIJOBS, {**about, "spec": {"mpiReplicaSpecs": replicas}})
            launcher = await first_of(place, BATCH_JOBS, "pi")
            message = 'Error creating: admission webhook "deny.example.com" denied the request: no team label'
            await write_event(place, launcher, "FailedCreate", message, of="Job")
            found = await condition_of(place, "pi", MPI_KIND)
            assert found["reason"] == "AdmissionWebhook", found
        finally:
            await clear(place.api, MPI_KIND, "/apis/batch/v1/jobs", "/api/v1/configmaps", "/api/v1/secrets")

    tell(story)
