"""Fields of pod templates: the API server refuses unknown ones and accepts all others, and kubectl explains them."""

from __future__ import annotations

import copy
import subprocess

import pytest

from deploy.refused_manifests import KINDS, whole
from deploy.samples import place, sample
from windlass.controlplane.api import ApiError
from windlass.controlplane.build import find

STRICT = {"dryRun": "All", "fieldValidation": "Strict"}
LIMIT = {"limits": {"nvidia.com/gpu": 8}}
POD = {"containers": [{"name": "main", "resource": LIMIT}]}
JOB_SET = {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": {"spec": POD}}}}]}}
MISTYPED = "containers[0].resource"
"""The field in a strict refusal: `resource` for `resources`."""


def with_spec(kind, **spec):
    job = sample(kind)
    return {**job, "spec": {**job["spec"], **spec}}


def container_of(job):
    [specs] = [each for name, each in job["spec"].items() if name.endswith("ReplicaSpecs")]
    [replica] = specs.values()
    return replica["template"]["spec"]["containers"][0]


def mistyped_jobs():
    for kind in KINDS:
        job = whole(kind)
        container_of(job)["resource"] = LIMIT
        yield job
    yield with_spec("TrainingJob", pod={"spec": POD})
    yield with_spec("TrainingRuntime", template=JOB_SET)
    yield with_spec("ClusterTrainingRuntime", template=JOB_SET)
    yield with_spec("TrainJob", podTemplateOverrides=[{"spec": POD}])
    yield with_spec("TrainJob", podSpecOverrides=[POD])
    yield with_spec("TrainJob", runtimePatches=[{"trainingRuntimeSpec": {"template": JOB_SET}}])


@pytest.mark.parametrize("job", list(mistyped_jobs()), ids=lambda job: f"{job['kind']}-{job['apiVersion']}")
def test_a_mistyped_field_of_a_container_is_refused_and_named(run_on_api, job):
    with pytest.raises(ApiError) as refused:
        run_on_api(lambda api: api.post(place(job), job, **STRICT))
    assert 'unknown field "spec.' in str(refused.value)
    assert MISTYPED in str(refused.value)


def test_a_template_with_every_kind_of_value_is_stored_whole(run_on_api):
    """Amounts may be fractions, ports names, and Go encodes an absent time as null."""
    job = whole(KINDS[0])
    container = container_of(job)
    container["resources"] = {"limits": {"cpu": 0.5, "memory": "1Gi", "nvidia.com/gpu": 1}}
    container["livenessProbe"] = {"httpGet": {"port": "web", "path": "/"}, "periodSeconds": 3}
    container["ports"] = [{"name": "web", "containerPort": 80}]
    container["env"] = [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    template = next(iter(job["spec"]["pytorchReplicaSpecs"].values()))["template"]
    template["metadata"] = {"creationTimestamp": None, "labels": {"a": "b"}, "name": "any"}
    template["spec"]["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]
    wanted = copy.deepcopy(job["spec"])
    container_of({"spec": wanted})["ports"][0]["protocol"] = "TCP"
    assert run_on_api(lambda api: api.post(place(job), job, **STRICT))["spec"] == wanted


def test_a_part_of_a_template_may_remove_values(run_on_api):
    job = with_spec("TrainingJob", pod={"spec": {"affinity": None, "containers": [{"name": "main", "image": None}]}})
    kept = run_on_api(lambda api: api.post(place(job), job, **STRICT))
    assert kept["spec"]["pod"] == job["spec"]["pod"]


def kubectl(plane, *words, **more):
    return subprocess.run(
        [find("kubectl"), "--kubeconfig", plane.kubeconfig, *words], capture_output=True, text=True, check=False, **more
    )


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("pytorchjob.spec.pytorchReplicaSpecs.template.spec.containers", "resources\t<"),
        ("mpijob.spec.mpiReplicaSpecs.template.spec.containers", "resources\t<"),
        ("trainingjob.spec.pod.spec.containers", "resources\t<"),
        ("trainingruntime.spec.template.spec.replicatedJobs.template.spec.template.spec", "tolerations\t<"),
    ],
)
def test_kubectl_explains_the_fields_of_a_template(with_kinds, path, field):
    ran = kubectl(with_kinds, "explain", path)
    assert (ran.returncode, field in ran.stdout) == (0, True), ran.stdout + ran.stderr


def test_kubectl_refuses_a_mistyped_field_before_the_job_exists(with_kinds):
    job = next(mistyped_jobs())
    ran = kubectl(with_kinds, "apply", "-f", "-", input=str(job).replace("'", '"'))
    assert ran.returncode == 1
    assert f'unknown field "spec.pytorchReplicaSpecs.Master.template.spec.{MISTYPED}"' in ran.stderr
    assert kubectl(with_kinds, "get", "pytorchjobs", "any").returncode == 1
