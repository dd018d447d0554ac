"""Every job has `Created` first, and Events with the reasons of its kind's operator for what its conditions say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from recorded_api import Cluster

from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.client.object_cache import Change
from windlass.backends.kubernetes.client.object_reference import ObjectReference
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.resources import Resource, named
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.stored_state import Stored
from windlass.backends.kubernetes.status.event_correlation import EventRecord
from windlass.backends.kubernetes.status.job_announcer import JobAnnouncer, announced_topics
from windlass.core.lifecycle.commands import RestartMember
from windlass.core.model.reasons import Reason, Verdict
from windlass.core.model.status import Phase, Status
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.server.operator.pending_reasons import write_reason

PYTORCH = named("kubeflow.org/v1", "pytorchjobs", "PyTorchJob")
MPI_V2 = named("kubeflow.org/v2beta1", "mpijobs", "MPIJob")
HIGH = {"schedulingPolicy": {"priorityClass": "high"}}
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}


def replicas(count: int, container: str = "pytorch", **spec: Any) -> dict[str, Any]:
    limits = {"limits": {"nvidia.com/gpu": "2"}}
    return {
        "replicas": count,
        "template": {"spec": {"containers": [{"name": container, "image": "x", "resources": limits}], **spec}},
    }


def put(cluster: Cluster, spec: dict[str, Any], resource: Resource = PYTORCH, version: int = 1, **status: Any) -> None:
    about = {"name": "digits", "namespace": "ml", "uid": "u", "resourceVersion": str(version), "generation": version}
    manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": about, "spec": spec}
    cluster.backend.job_reader.update(resource, manifest | ({"status": status} if status else {}))


def play(story: Callable[[Cluster], Awaitable[None]], **cluster_settings: Any) -> Cluster:
    async def whole() -> Cluster:
        cluster = Cluster("n1", **cluster_settings)
        await cluster.lead()
        await story(cluster)
        await cluster.run()
        await asyncio.sleep(0.3)
        await cluster.backend.close()
        return cluster

    return asyncio.run(whole())


def conditions(cluster: Cluster) -> list[tuple[str, str, str]]:
    return [
        (each["type"], each["status"], each["reason"]) for each in cluster.api.statuses["digits"].get("conditions", ())
    ]


def events(cluster: Cluster) -> list[tuple[str, str]]:
    """Types and reasons of the Events of the job."""
    found = [each for each in cluster.api.announced if each["involvedObject"]["name"] == "digits"]
    assert {each["involvedObject"]["uid"] for each in found} <= {"u"}
    return [(each["type"], each["reason"]) for each in found if not each["reason"].startswith("Successful")]


def message(cluster: Cluster, reason: str) -> str:
    return next(str(each["message"]) for each in cluster.api.announced if each["reason"] == reason)


def test_a_job_that_waits_for_a_claim_is_created_and_says_why_it_waits() -> None:
    async def story(cluster: Cluster) -> None:
        put(cluster, {"pytorchReplicaSpecs": {"Master": replicas(1, volumes=[CLAIM])}})

    cluster = play(story)
    assert conditions(cluster) == [("Accepted", "False", "Waiting"), ("Created", "True", "PyTorchJobCreated")]
    assert events(cluster) == [("Normal", "PyTorchJobCreated"), ("Warning", "PyTorchJobWaiting")]
    assert "data" in message(cluster, "PyTorchJobWaiting")


def test_a_job_of_a_priority_class_that_is_missing_is_created_and_says_why_it_waits() -> None:
    async def story(cluster: Cluster) -> None:
        policy = {"schedulingPolicy": {"priorityClass": "absent"}}
        put(cluster, {"runPolicy": policy, "pytorchReplicaSpecs": {"Master": replicas(1)}})

    cluster = play(story)
    assert conditions(cluster)[-1] == ("Created", "True", "PyTorchJobCreated")
    assert "absent" in message(cluster, "PyTorchJobWaiting")


def test_a_job_whose_namespace_is_not_listed_yet_waits_without_an_event() -> None:
    async def story(cluster: Cluster) -> None:
        put(cluster, {"pytorchReplicaSpecs": {"Master": replicas(1)}})
        await cluster.run(2)
        assert (events(cluster), cluster.api.statuses) == ([], {})
        cluster.put_namespace()

    cluster = play(story, has_namespace=False)
    assert events(cluster).count(("Normal", "PyTorchJobCreated")) == 1
    assert ("Normal", "PyTorchJobAdmitted") in events(cluster)
    assert ("Warning", "PyTorchJobWaiting") not in events(cluster)


def put_class(cluster: Cluster, name: str) -> None:
    about = {"name": name, "uid": "p", "resourceVersion": "1"}
    found = objects.priority_class(json.dumps({"metadata": about, "value": 7}).encode())
    cluster.backend.monitor.lookups.see_priorities([Change("added", found)])


def test_a_job_that_is_seen_before_an_object_that_it_names_waits_without_an_event() -> None:
    async def story(cluster: Cluster) -> None:
        put(cluster, {"runPolicy": HIGH, "pytorchReplicaSpecs": {"Master": replicas(1)}})
        await cluster.run(2)
        assert "there is no PriorityClass high" in cluster.backend.jobs.get("ml/pytorchjob/digits").status.message
        put_class(cluster, "high")

    cluster = play(story, wait_settling=60_000)
    assert ("Normal", "PyTorchJobAdmitted") in events(cluster)
    assert ("Warning", "PyTorchJobWaiting") not in events(cluster)


def test_a_job_that_waits_for_an_object_is_not_created_again_when_it_arrives() -> None:
    async def story(cluster: Cluster) -> None:
        put(cluster, {"runPolicy": HIGH, "pytorchReplicaSpecs": {"Master": replicas(1)}})
        await cluster.run(2)
        await asyncio.sleep(0.1)
        assert conditions(cluster)[-1] == ("Created", "True", "PyTorchJobCreated")
        put_class(cluster, "high")

    cluster = play(story)
    assert events(cluster).count(("Normal", "PyTorchJobCreated")) == 1
    assert ("Normal", "PyTorchJobAdmitted") in events(cluster)


@pytest.mark.parametrize(
    ("resource", "spec", "reason"),
    [
        (PYTORCH, {"pytorchReplicaSpecs": {"Helper": replicas(1)}}, "PyTorchJobFailedValidation"),
        (MPI_V2, {"mpiReplicaSpecs": {"Launcher": replicas(2)}}, "ValidationError"),
    ],
)
def test_a_job_with_an_invalid_spec_is_created_and_has_failed_until_it_is_repaired(
    resource: Resource, spec: dict[str, Any], reason: str
) -> None:
    async def story(cluster: Cluster) -> None:
        put(cluster, spec, resource)

    cluster = play(story)
    expected = ["Accepted", "Created", "Failed"]
    assert [each[0] for each in conditions(cluster)] == expected
    assert conditions(cluster)[2] == ("Failed", "True", reason)
    assert events(cluster) == [("Normal", f"{resource.kind}Created"), ("Warning", reason)]
    status = json.loads(json.dumps(cluster.api.statuses["digits"]))

    async def repaired(cluster: Cluster) -> None:
        right = {"pytorchReplicaSpecs": {"Master": replicas(1)}}
        if resource is MPI_V2:
            right = {"mpiReplicaSpecs": {"Launcher": replicas(1), "Worker": replicas(1)}}
        put(cluster, right, resource, version=2, **status)

    cluster = play(repaired)
    assert [each[:2] for each in conditions(cluster) if each[0] in ("Created", "Failed")] == [("Created", "True")]
    assert (("Normal", f"{resource.kind}Created")) not in events(cluster), "it was announced before"
    assert cluster.controller.states["ml/" + resource.kind.lower() + "/digits"].status.phase != "Failed"


def test_a_job_that_waits_in_the_queue_says_why_once_that_is_known() -> None:
    async def story(cluster: Cluster) -> None:
        put(cluster, {"pytorchReplicaSpecs": {"Master": replicas(1), "Worker": replicas(3)}})
        await cluster.run()
        for text in ("needs 6 GPUs more", "needs 5 GPUs more"):
            write_reason(cluster.backend, "ml/pytorchjob/digits", Verdict(Reason.WAITING_FOR_QUOTA, text))
            await cluster.run(2)
            await asyncio.sleep(0.1)

    cluster = play(story)
    assert conditions(cluster)[0] == ("Created", "True", "PyTorchJobCreated")
    assert events(cluster) == [("Normal", "PyTorchJobCreated"), ("Normal", "PyTorchJobQueued")]
    assert "needs 6 GPUs more" in message(cluster, "PyTorchJobQueued")


def test_the_pods_of_a_job_have_events_and_a_large_gang_has_few() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.put_node("n2")
        put(cluster, {"pytorchReplicaSpecs": {"Master": replicas(1), "Worker": replicas(1)}})

    cluster = play(story)
    messages = [each["message"] for each in cluster.api.announced if each["reason"] == "SuccessfulCreatePod"]
    assert sorted(messages) == ["Created pod: digits-master-0", "Created pod: digits-worker-0"]
    services = [each["message"] for each in cluster.api.announced if each["reason"] == "SuccessfulCreateService"]
    assert "Created service: digits-master-0" in services


def test_a_pod_that_ends_has_an_event_with_its_exit_code_and_the_job_one_of_its_end() -> None:
    async def story(cluster: Cluster) -> None:
        put(cluster, {"pytorchReplicaSpecs": {"Master": replicas(1)}})
        await cluster.run()
        (pod,) = cluster.backend.pods.all()
        for version, phase in ((1_000, "Running"), (1_001, "Succeeded")):
            manifest = msgspec.to_builtins(pod)
            manifest["metadata"]["resourceVersion"] = str(version)
            ended = {"name": "pytorch", "state": {"terminated": {"exitCode": 0}}}
            manifest["status"] = {"phase": phase, "containerStatuses": [ended] if phase == "Succeeded" else []}
            manifest["spec"]["nodeName"] = "n1"
            cluster.backend.pods.learn(msgspec.convert(manifest, Pod))
            await cluster.run()

    cluster = play(story)
    reasons = [reason for _, reason in events(cluster)]
    assert reasons.count("ExitedWithCode") == 1
    assert message(cluster, "ExitedWithCode") == "Pod: ml.digits-master-0 exited with code 0"
    order = [each for each in reasons if each.startswith("PyTorchJob")]
    assert order == [f"PyTorchJob{each}" for each in ("Created", "Admitted", "Running", "Succeeded")]
    assert not any("Completing" in each["message"] for each in cluster.api.announced)


def test_a_job_that_is_suspended_does_not_say_that_it_restarts() -> None:
    def learn(cluster: Cluster, version: int, **about: Any) -> None:
        (pod,) = cluster.backend.pods.all()
        manifest = msgspec.to_builtins(pod)
        manifest["metadata"] |= {"resourceVersion": str(version), **about}
        manifest["spec"]["nodeName"], manifest["status"] = "n1", {"phase": "Running"}
        cluster.backend.pods.learn(msgspec.convert(manifest, Pod))

    async def story(cluster: Cluster) -> None:
        spec = {"pytorchReplicaSpecs": {"Master": replicas(1)}}
        put(cluster, spec)
        await cluster.run()
        learn(cluster, 1_000)
        await cluster.run()
        put(cluster, spec | {"runPolicy": {"suspend": True}}, version=2)
        await cluster.run(2)
        learn(cluster, 1_001, deletionTimestamp="2026-01-01T12:00:00Z")
        await cluster.run(2)
        cluster.remove_pod(next(iter(cluster.backend.pods.all())))

    cluster = play(story)
    assert ("Suspended", "True", "PyTorchJobSuspended") in conditions(cluster)
    reasons = [reason for _, reason in events(cluster) if reason.startswith("PyTorchJob")]
    assert reasons == [f"PyTorchJob{each}" for each in ("Created", "Admitted", "Running", "Suspended")]


def test_a_restart_of_one_pod_has_an_event_even_if_it_is_over_before_the_status_is_written() -> None:
    async def story(cluster: Cluster) -> None:
        spec = replicas(1) | {"restartPolicy": "ExitCode"}
        put(cluster, {"pytorchReplicaSpecs": {"Master": spec}})
        await cluster.run()
        (pod,) = cluster.backend.pods.all()
        for version, phase in ((1_000, "Running"), (1_001, "Failed")):
            manifest = msgspec.to_builtins(pod)
            manifest["metadata"]["resourceVersion"] = str(version)
            ended = {"name": "pytorch", "state": {"terminated": {"exitCode": 137, "reason": "Error"}}}
            manifest["status"] = {"phase": phase, "containerStatuses": [ended] if phase == "Failed" else []}
            manifest["spec"]["nodeName"] = "n1"
            cluster.backend.pods.learn(msgspec.convert(manifest, Pod))
            await cluster.run(3)

    cluster = play(story)
    found = [each["message"] for each in cluster.api.announced if each["reason"] == "PyTorchJobRestarting"]
    assert found == ["PyTorchJob digits is restarting because digits-master-0 exited with code 137."]
    assert message(cluster, "ExitedWithCode") == "Pod: ml.digits-master-0 exited with code 137"


@pytest.mark.parametrize("gone", ["before the turn", "before the restart"])
def test_a_restart_of_one_pod_has_an_event_even_if_the_pod_is_gone_already(gone: str) -> None:
    def learn(cluster: Cluster, version: int, **about: Any) -> Pod:
        (pod,) = cluster.backend.pods.all()
        manifest = msgspec.to_builtins(pod)
        manifest["metadata"] |= {"resourceVersion": str(version), **about}
        manifest["spec"]["nodeName"], manifest["status"] = "n1", {"phase": "Running"}
        pod = msgspec.convert(manifest, Pod)
        cluster.backend.pods.learn(pod)
        return pod

    async def story(cluster: Cluster) -> None:
        spec = replicas(1) | {"restartPolicy": "OnFailure"}
        put(cluster, {"pytorchReplicaSpecs": {"Master": spec}})
        await cluster.run()
        learn(cluster, 1_000)
        await cluster.run()
        pod = learn(cluster, 1_001, deletionTimestamp="2026-01-01T12:00:00Z")
        if gone == "before the turn":
            cluster.remove_pod(pod)
        commands = await cluster.decide()
        assert [type(each) for each in commands] == [RestartMember]
        if gone == "before the restart":
            cluster.remove_pod(pod)
        cluster.backend.perform(commands)
        await cluster.run()
        assert [each.metadata.name for each in cluster.backend.pods.all()] == ["digits-master-0"]

    cluster = play(story)
    found = [each["message"] for each in cluster.api.announced if each["reason"] == "PyTorchJobRestarting"]
    assert found == ["PyTorchJob digits is restarting because digits-master-0 is being deleted."]


def test_thousands_of_jobs_that_wait_have_few_further_events_when_their_reasons_change() -> None:
    found: list[EventRecord] = []
    now = [0]
    announcer = JobAnnouncer(found.append, lambda: now[0])
    waiting = {"conditions": [{"type": "Queued", "status": "True", "reason": "PyTorchJobQueued", "message": "x"}]}
    spec = {"pytorchReplicaSpecs": {"Master": replicas(1)}}
    about = {"name": "digits", "namespace": "ml", "uid": "u", "resourceVersion": "1"}
    manifest = {"apiVersion": PYTORCH.api_version, "kind": PYTORCH.kind, "metadata": about, "spec": spec}
    parsed = registry.read(manifest | {"status": waiting})
    assert isinstance(parsed, ParsedJob)
    queued = Stored(1, 1, Status(phase=Phase.QUEUED, reason="Queued"))
    reference = ObjectReference(PYTORCH, "ml", "digits", "u")
    gangs = [Gang(reference, parsed, parsed.job, 1, stored=queued) for _ in range(4_000)]
    for gang in gangs:
        gang.notes.announced = announced_topics(gang)
    for second, word in enumerate(("WaitingForQuota", "DoesNotFit") * 5):
        now[0] = second * 1_000
        for gang in gangs:
            gang.notes.pending_reason, gang.notes.pending_message = word, f"because of {word}"
            announcer.announce(gang)
    assert len(found) == 10 + 9, "ten at once, then one a second"
