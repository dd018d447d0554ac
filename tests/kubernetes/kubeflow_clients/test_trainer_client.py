"""The TrainerClient of the Kubeflow SDK against the operator: every method, with the trainer's standard runtimes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import CustomTrainer, CustomTrainerContainer, TrainerClient
from kubeflow.trainer.options import (
    ActiveDeadlineSeconds,
    Annotations,
    JobSetSpecPatch,
    JobSetTemplatePatch,
    JobSpecPatch,
    JobTemplatePatch,
    Labels,
    Name,
    PodSpecPatch,
    PodTemplatePatch,
    ReplicatedJobPatch,
    RuntimePatch,
    TrainerArgs,
    TrainerCommand,
    TrainingRuntimeSpecPatch,
)

from kubeflow_clients.user_cluster import GROUP, UserCluster, log_of, until
from windlass.jobs.kubernetes.train_runtimes import CLUSTER_RUNTIME, standard_runtimes

TORCH = "torch-distributed"
OWN_RUNTIMES = f"{GROUP}/namespaces/default/trainingruntimes"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def client(cluster: UserCluster) -> TrainerClient:
    return TrainerClient(KubernetesBackendConfig(namespace="default", config_file=str(cluster.plane.kubeconfig)))


@pytest.fixture
def own_runtime(cluster: UserCluster) -> Iterator[str]:
    """A runtime of the namespace, with three nodes and another image."""
    made = next(each for each in standard_runtimes() if each["metadata"]["name"] == TORCH)
    (job,) = made["spec"]["template"]["spec"]["replicatedJobs"]
    job["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/own:1"
    made["spec"]["mlPolicy"]["numNodes"] = 3
    labels = {"trainer.kubeflow.org/framework": "torch"}
    cluster.post(OWN_RUNTIMES, {**made, "kind": "TrainingRuntime", "metadata": {"name": "own", "labels": labels}})
    yield "own"
    cluster.there.do(cluster.place.api.delete(f"{OWN_RUNTIMES}/own"))


def wait_for(client: TrainerClient, name: str, *statuses: str, **words: Any) -> Any:
    return client.wait_for_job_status(name, set(statuses), timeout=60, polling_interval=1, **words)


def pods_of(cluster: UserCluster, name: str) -> list[dict[str, Any]]:
    found = cluster.get(f"{PODS}?labelSelector=jobset.sigs.k8s.io/jobset-name%3D{name}")["items"]
    return sorted(found, key=lambda pod: pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])


def end_all(cluster: UserCluster, name: str) -> None:
    for pod in pods_of(cluster, name):
        cluster.end(pod["metadata"]["name"])


def learn(rate: float) -> None:
    print(rate)  # noqa: T201 - a user's function


def test_runtimes_of_the_cluster_and_of_the_namespace_are_listed(client, own_runtime):
    found = {each.name: each.kind.value for each in client.list_runtimes()}
    standard = {each["metadata"]["name"]: CLUSTER_RUNTIME for each in standard_runtimes()}
    assert found == {**standard, own_runtime: "TrainingRuntime"}
    own = client.get_runtime(own_runtime)
    assert (own.trainer.image, own.trainer.num_nodes, own.trainer.framework) == ("example.com/own:1", 3, "torch")


def test_a_job_of_a_container_runs_has_logs_and_events_and_is_deleted(client, cluster):
    trainer = CustomTrainerContainer("mine:1", num_nodes=2, resources_per_node={"gpu": 1}, env={"MINE": "1"})
    name = client.train(client.get_runtime(TORCH), trainer=trainer)
    running = wait_for(client, name, "Running")
    assert {step.name for step in running.steps} == {"node-0", "node-1"}
    pods = pods_of(cluster, name)
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        assert (container["image"], container["resources"]["limits"]) == ("mine:1", {"nvidia.com/gpu": "1"})
        assert {"name": "MINE", "value": "1"} in container["env"]
    for index, pod in enumerate(pods):
        lines = log_of(pod["metadata"]["name"]).splitlines()
        for follow in (False, True):
            assert list(client.get_job_logs(name, step=f"node-{index}", follow=follow)) == lines
    events = client.get_job_events(name)
    assert "TrainJob" in {each.involved_object_kind for each in events}
    client.delete_job(name)
    with pytest.raises(RuntimeError):
        client.get_job(name)
    until(lambda: not pods_of(cluster, name))


def test_a_job_of_a_function_runs_it_on_the_nodes_of_its_runtime(client, cluster, own_runtime):
    trainer = CustomTrainer(learn, {"rate": 0.1}, packages_to_install=["numpy"], env={"MINE": "1"})
    name = client.train(own_runtime, trainer=trainer)
    wait_for(client, name, "Running")
    pods = pods_of(cluster, name)
    assert [pod["spec"]["containers"][0]["image"] for pod in pods] == ["example.com/own:1"] * 3
    scripts = [pod["spec"]["containers"][0]["command"][-1] for pod in pods]
    assert all("learn(**{'rate': 0.1})" in each and "numpy" in each for each in scripts)
    end_all(cluster, name)
    seen = []
    done = wait_for(client, name, "Complete", callbacks=[seen.append])
    assert (done.status, done.num_nodes, done.runtime.name) == ("Complete", 3, own_runtime)
    assert seen[-1].status == "Complete"
    assert name in [each.name for each in client.list_jobs()]
    assert [each.name for each in client.list_jobs(client.get_runtime(own_runtime))] == [name]
    assert client.get_job(name).status == "Complete"
    client.delete_job(name)


def test_options_of_a_call_reach_the_pods(client, cluster):
    pod = PodSpecPatch(node_selector={"kubernetes.io/hostname": "n1"}, tolerations=[{"key": "x", "operator": "Exists"}])
    template = JobTemplatePatch(spec=JobSpecPatch(template=PodTemplatePatch({"labels": {"team": "vision"}}, pod)))
    job_set = JobSetTemplatePatch(spec=JobSetSpecPatch([ReplicatedJobPatch("node", template)]))
    cluster.patch("/api/v1/nodes/n1", {"metadata": {"labels": {"kubernetes.io/hostname": "n1"}}})
    options = [
        Name("patched"),
        Labels({"team": "vision"}),
        Annotations({"note": "first"}),
        TrainerCommand(["train"]),
        TrainerArgs(["--fast"]),
        ActiveDeadlineSeconds(600),
        RuntimePatch(TrainingRuntimeSpecPatch(job_set)),
    ]
    assert client.train(options=options) == "patched"
    wait_for(client, "patched", "Running")
    about = cluster.get(f"{GROUP}/namespaces/default/trainjobs/patched")
    assert about["metadata"]["labels"]["team"] == "vision"
    assert about["metadata"]["annotations"]["note"] == "first"
    (found,) = pods_of(cluster, "patched")
    (container,) = found["spec"]["containers"]
    assert (container["command"], container["args"], found["spec"]["nodeName"]) == (["train"], ["--fast"], "n1")
    assert found["metadata"]["labels"]["team"] == "vision"
    client.delete_job("patched")


def test_a_job_at_its_deadline_is_an_error_for_a_client_that_waits_for_its_end(client):
    name = client.train(TORCH, trainer=CustomTrainerContainer("mine:1"), options=[ActiveDeadlineSeconds(1)])
    assert wait_for(client, name, "Failed", "Complete").status == "Failed"
    with pytest.raises(RuntimeError, match="is Failed"):
        wait_for(client, name, "Complete")
    client.delete_job(name)


def test_the_packages_of_a_runtime_are_printed_from_its_log(client, cluster, capsys):
    client.get_runtime_packages(client.get_runtime(TORCH))
    assert "line 2" in capsys.readouterr().out
    until(lambda: not client.list_jobs(client.get_runtime(TORCH)))
