"""A real API server accepts every object that a job becomes, strictly validated, and keeps TrainingJobs unchanged."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from gpu_tolerations import without_gpu_tolerations
from windlass.backends.kubernetes.client.access import from_kubeconfig
from windlass.backends.kubernetes.client.connection import Connection
from windlass.deploy.crds import DEFAULT, POD_GROUPS, crds
from windlass.deploy.install.installer import apply
from windlass.jobs.description.job_file import loads
from windlass.jobs.kubernetes.kinds.registry import KINDS, dependent_objects, members, read
from windlass.jobs.kubernetes.manifest_reader import Fault
from windlass.jobs.kubernetes.manifests.trainingjob_manifest import training_job
from windlass.jobs.kubernetes.settings import Settings

STRICT = {"dryRun": "All", "fieldValidation": "Strict"}
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
FOLDER = Path(__file__).parents[1] / "samples"
PLURALS = {
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
    **{kind.name: kind.plural for kind in KINDS},
}


def written():
    """Every sample."""
    return [each for file in sorted(FOLDER.glob("*.yaml")) for each in yaml.safe_load_all(file.read_text())]


def samples():
    return [each for each in written() if any(kind.name == each["kind"] for kind in KINDS)]


def runtimes(kind, _namespace, name):
    return next((each for each in written() if (each["kind"], each["metadata"]["name"]) == (kind, name)), None)


def place(manifest):
    """API path under which objects of this kind are created."""
    version, namespace = manifest["apiVersion"], manifest["metadata"].get("namespace", "default")
    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    return f"{root}/namespaces/{namespace}/{PLURALS.get(manifest['kind'], manifest['kind'].lower() + 's')}"


@pytest.fixture(scope="module")
def cluster(apiserver):
    async def story():
        async with Connection(from_kubeconfig(str(apiserver.kubeconfig))) as connection:
            async for _ in apply(connection, crds((*DEFAULT, POD_GROUPS))):
                pass
        async with apiserver.api() as api:  # the service account and the class that the manifests name
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer"}}
            await api.post("/api/v1/namespaces/default/serviceaccounts", account)
            await api.post(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 10})

    async def remove():
        async with apiserver.api() as api:
            await api.delete(f"{PRIORITY_CLASSES}/high")

    asyncio.run(story())
    yield apiserver
    asyncio.run(remove())


def with_keys(manifest):
    """The secret with keys, which the operator adds at its creation."""
    if manifest["kind"] != "Secret":
        return manifest
    return {**manifest, "data": {name: value or "a2V5" for name, value in manifest["data"].items()}}


def taken(cluster, objects):
    """The objects as the server would store them. Raises ApiError for a refusal."""

    async def story():
        async with cluster.api() as api:
            return [await api.post(place(each), with_keys(each), **STRICT) for each in objects]

    return asyncio.run(story())


@pytest.mark.parametrize("manifest", samples(), ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
def test_the_objects_of_a_job_are_accepted(cluster, manifest):
    manifest["metadata"] = {**manifest["metadata"], "namespace": "default", "uid": "7c1e"}
    parsed = read(manifest, Settings(runtimes=runtimes, pod_groups=True))
    assert not isinstance(parsed, Fault), str(parsed)
    pods = [member.pod for member in members(parsed, 1)]
    objects = [*dependent_objects(parsed, [pod["metadata"]["name"] for pod in pods]), *pods]
    assert objects
    for each, kept in zip(objects, taken(cluster, objects), strict=True):
        assert kept["metadata"]["name"] == each["metadata"]["name"]


JOBS = """\
name: digits
command: torchrun train.py --epochs 3
image: digits:1
elastic: {min: 2, max: 8}
gpus: 4
queue: research
priority: -5
time: 1h30m
deadline: 2d
ttl: 0s
grace: 45s
topology: {level: rack, preferred: true, slice: 4}
gpu_type: [H100, A100]
avoid: [n1, n7]
after: [prepare, any:warmup-3]
affinity: ["zone in (a,b), !spot", "cores>16"]
tolerations: [{key: gpu, operator: Exists}, {key: team, value: vision, effect: NoSchedule}]
restart: {user: 3, infrastructure: 0, backoff: 500ms, fatal_exit_codes: [2, 3]}
preemptible: false
labels: {team: vision, why: "a long story, told badly"}
---
name: ps
image: ps:1
env: {A: "yes", B: "010", C: ""}
roles:
  ps: {replicas: 1, command: [python, ps.py], cpus: 1500m, mem: 512Mi}
  worker: {replicas: 4, mig: 1g.10gb, command: [python, train.py], whole_node: true, selector: {zone: a}}
suspend: true
---
name: pods
command: [sh, -ec, "python a.py | tee log"]
image: ghcr.io/team/a@sha256:0000000000000000000000000000000000000000000000000000000000000000
pod:
  metadata: {annotations: {note: kept}}
  spec:
    serviceAccountName: trainer
    volumes: [{name: data, emptyDir: {}}]
    containers:
    - {name: main, volumeMounts: [{name: data, mountPath: /data}], env: [{name: OMP_NUM_THREADS, value: "2"}]}
    - {name: logs, image: "logs:1", resources: {requests: {cpu: 10m}}}
"""


@pytest.mark.parametrize("number", range(3))
def test_a_trainingjob_is_stored_unchanged_and_its_pods_are_accepted(cluster, number):
    job = replace(loads(JOBS)[number].job, workdir="/srv/app", user="ada")
    (kept,) = taken(cluster, [training_job(job, f"{job.name}-7", "default")])
    parsed = read(kept)
    assert not isinstance(parsed, Fault), str(parsed)
    if not any(role.pod for role in job.roles):  # the additions of `pod` are in the job then
        assert without_gpu_tolerations(parsed.job) == job
    taken(cluster, [*dependent_objects(parsed), *(member.pod for member in members(parsed, 1))])
