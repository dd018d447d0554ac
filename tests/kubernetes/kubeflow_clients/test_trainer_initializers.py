"""Initializers of the Kubeflow SDK: the dataset and the model are loaded into the claim of a job before it trains."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import (
    CustomTrainerContainer,
    HuggingFaceDatasetInitializer,
    HuggingFaceModelInitializer,
    Initializer,
    TrainerClient,
)

from kubeflow_clients.user_cluster import GROUP, UserCluster, until
from windlass.jobs.kubernetes.train_runtimes import standard_runtimes

RUNTIMES = f"{GROUP}/namespaces/default/trainingruntimes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
PODS = "/api/v1/namespaces/default/pods"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
INITIALIZERS = ("dataset-initializer", "model-initializer")
GIVEN = "of the test"
MOUNTS = [{"name": "initializer", "mountPath": "/workspace"}]


@pytest.fixture
def tuning_runtime(cluster: UserCluster) -> Iterator[str]:
    """A runtime like those of torchtune: two initializers and a trainer share a claim that is retained."""
    made = next(each for each in standard_runtimes() if each["metadata"]["name"] == "torch-distributed")
    job_set = made["spec"]["template"]["spec"]
    (node,) = job_set["replicatedJobs"]
    node["template"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = MOUNTS
    jobs = [_initializer(node, name) for name in INITIALIZERS]
    node["dependsOn"] = [{"name": name, "status": "Complete"} for name in INITIALIZERS]
    job_set["replicatedJobs"] = [*jobs, node]
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "late"}
    claim = {"metadata": {"name": "initializer"}, "spec": spec}
    job_set["volumeClaimPolicies"] = [{"templates": [claim], "retentionPolicy": {"whenDeleted": "Retain"}}]
    late = {
        "metadata": {"name": "late"},
        "provisioner": "example.com/disks",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    cluster.post(CLASSES, late)
    labels = {"trainer.kubeflow.org/framework": "torch"}
    cluster.post(RUNTIMES, {**made, "kind": "TrainingRuntime", "metadata": {"name": "tuning", "labels": labels}})
    yield "tuning"
    for path in (f"{RUNTIMES}/tuning", f"{CLASSES}/late"):
        cluster.there.do(cluster.place.api.delete(path))


def _initializer(node: dict[str, Any], name: str) -> dict[str, Any]:
    made = {**copy.deepcopy(node), "name": name}
    made["template"]["metadata"]["labels"] = {"trainer.kubeflow.org/trainjob-ancestor-step": name}
    container = {"name": name, "image": f"{name}:1", "volumeMounts": MOUNTS}
    made["template"]["spec"]["template"]["spec"]["containers"] = [container]
    return made


def wait_for(client: TrainerClient, name: str, status: str) -> Any:
    return client.wait_for_job_status(name, {status}, timeout=60, polling_interval=1)


def pods_of(cluster: UserCluster, job: str) -> dict[str, Any]:
    found = cluster.get(f"{PODS}?labelSelector=jobset.sigs.k8s.io/jobset-name%3D{job}")["items"]
    return {each["metadata"]["name"].removeprefix(f"{job}-"): each for each in found}


def run_to_its_end(client: TrainerClient, cluster: UserCluster, job: str) -> None:
    """Ends the initializers and then the nodes of a job."""
    first = {f"{name}-0-0" for name in INITIALIZERS}
    until(lambda: _running(cluster, job) == first)
    assert set(pods_of(cluster, job)) == first
    for name in first:
        cluster.end(f"{job}-{name}")
    until(lambda: _running(cluster, job) == {"node-0-0", "node-0-1"})
    for name in ("node-0-0", "node-0-1"):
        cluster.end(f"{job}-{name}")
    done = wait_for(client, job, "Complete")
    assert {step.name for step in done.steps} == {*INITIALIZERS, "node-0", "node-1"}


def _running(cluster: UserCluster, job: str) -> set[str]:
    return {name for name, pod in pods_of(cluster, job).items() if pod["status"]["phase"] == "Running"}


def test_a_job_with_initializers_runs_and_finds_its_retained_claim_again(
    cluster: UserCluster, tuning_runtime: str
) -> None:
    client = TrainerClient(KubernetesBackendConfig(namespace="default", config_file=str(cluster.plane.kubeconfig)))
    initializer = Initializer(
        dataset=HuggingFaceDatasetInitializer(storage_uri="hf://tatsu-lab/alpaca", access_token=GIVEN),
        model=HuggingFaceModelInitializer(storage_uri="hf://meta-llama/Llama-3.2-1B"),
    )
    trainer = CustomTrainerContainer("mine:1", num_nodes=2, resources_per_node={"gpu": 1})
    job = client.train(client.get_runtime(tuning_runtime), initializer=initializer, trainer=trainer)
    run_to_its_end(client, cluster, job)
    env = pods_of(cluster, job)["dataset-initializer-0-0"]["spec"]["containers"][0]["env"]
    assert {"name": "STORAGE_URI", "value": "hf://tatsu-lab/alpaca"} in env
    assert {"name": "ACCESS_TOKEN", "value": GIVEN} in env
    claim = cluster.get(f"{CLAIMS}/initializer-{job}")
    assert claim["spec"]["resources"] == {"requests": {"storage": "1Gi"}}
    assert claim["metadata"]["annotations"][SELECTED_NODE] in ("n1", "n2")
    manifest = cluster.get(f"{GROUP}/namespaces/default/trainjobs/{job}")
    client.delete_job(job)
    until(lambda: not pods_of(cluster, job))
    again = {
        "apiVersion": manifest["apiVersion"],
        "kind": "TrainJob",
        "metadata": {"name": job},
        "spec": manifest["spec"],
    }
    cluster.post(f"{GROUP}/namespaces/default/trainjobs", again)
    run_to_its_end(client, cluster, job)
    assert cluster.get(f"{CLAIMS}/initializer-{job}")["metadata"]["uid"] == claim["metadata"]["uid"]
    client.delete_job(job)
    cluster.there.do(cluster.place.api.delete(f"{CLAIMS}/initializer-{job}"))
