"""The TrainingClient of the Kubeflow SDK against the operator: every method, with every kind that the client knows."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
from kubeflow.training import ApiClient, TrainingClient, models
from kubeflow.training.constants import constants
from kubeflow.training.utils import utils
from kubeflow_operators.kinds import KINDS, V2, Kind, base
from kubeflow_operators.recordings import RECORDED

from kubeflow_clients.user_cluster import POLL_S, UserCluster, log_of, until

V1 = [kind for kind in KINDS if kind is not V2]
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
each_kind = pytest.mark.parametrize("kind", V1, ids=lambda kind: kind.name)


def client_of(cluster: UserCluster, kind: str = "PyTorchJob") -> TrainingClient:
    return TrainingClient(config_file=str(cluster.plane.kubeconfig), namespace="default", job_kind=kind)


def model_of(kind: Kind, name: str, restart: str = "", suspend: bool | None = None) -> Any:
    """The plain manifest of a kind as an object of the client."""
    manifest = base(kind)
    manifest["metadata"] = {"name": name, "namespace": "default"}
    manifest["spec"]["runPolicy"] = {} if suspend is None else {"suspend": suspend}
    for spec in manifest["spec"][kind.specs].values():
        spec.update({"restartPolicy": restart} if restart else {})
    return ApiClient().deserialize(utils.FakeResponse(manifest), constants.JOB_PARAMETERS[kind.name]["model"])


def wait_for(client: TrainingClient, name: str, *conditions: str) -> Any:
    return client.wait_for_job_conditions(
        name, expected_conditions=set(conditions), wait_timeout=60, polling_interval=POLL_S
    )


def true_conditions(client: TrainingClient, name: str) -> list[str]:
    """Types of the conditions that hold, without `Admitted`, which is ours."""
    found = client.get_job_conditions(name)
    return [each.type for each in found if each.status == "True" and each.type != "Admitted"]


def deciding_pod(kind: Kind, name: str) -> str:
    """The pod whose end ends the job; of a JAXJob the only one that a test ends."""
    return f"{name}-launcher" if kind.name == "MPIJob" else f"{name}-{(kind.lead or 'Worker').lower()}-0"


@pytest.fixture(scope="module", params=V1, ids=lambda kind: kind.name)
def running(request: pytest.FixtureRequest, cluster: UserCluster) -> Iterator[tuple[Kind, TrainingClient, str]]:
    """A running job of each kind, which tests only read."""
    kind: Kind = request.param
    client, name = client_of(cluster, kind.name), f"{kind.name.lower()}-read"
    client.create_job(model_of(kind, name))
    wait_for(client, name, "Running")
    yield kind, client, name
    client.delete_job(name)


def test_a_created_job_is_listed_with_the_conditions_of_its_own_operator(running):
    kind, client, name = running
    job = client.get_job(name)
    assert (job.kind, job.metadata.name) == (kind.name, name)
    assert name in [each.metadata.name for each in client.list_jobs()]
    holding = [each["type"] for each in RECORDED[kind.label]["succeeds"][0]["job"]["conditions"]]
    assert true_conditions(client, name) == holding == ["Created", "Running"]
    assert client.is_job_created(name)
    assert client.is_job_running(job=job)
    assert not client.is_job_restarting(job=job)
    assert not client.is_job_succeeded(job=job)
    assert not client.is_job_failed(job=job)


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        ({}, {}),
        ({"is_master": True}, {"job-role": "master"}),
        ({"replica_type": "worker"}, {"replica-type": "worker"}),
        ({"replica_type": "worker", "replica_index": 0}, {"replica-type": "worker", "replica-index": "0"}),
    ],
    ids=lambda each: "-".join(each) or "all",
)
def test_pods_are_found_by_the_labels_of_the_own_operator(running, words, labels):
    kind, client, name = running
    wanted = {f"training.kubeflow.org/{key}": value for key, value in labels.items()}
    pods = RECORDED[kind.label]["succeeds"][0]["pods"]
    expected = {
        pod.replace("job-", f"{name}-") for pod, each in pods.items() if wanted.items() <= each["labels"].items()
    }
    assert set(client.get_job_pod_names(name, **words)) == expected
    found = client.get_job_pods(name, **words)
    assert {(pod.metadata.name, pod.status.phase) for pod in found} == {(pod, "Running") for pod in expected}


@pytest.mark.parametrize("follow", [False, True])
def test_logs_are_read_and_followed(running, follow, capsys):
    _, client, name = running
    masters = client.get_job_pod_names(name, is_master=True)
    assert masters
    for is_master, pods in ((True, masters), (False, client.get_job_pod_names(name))):
        logs, events = client.get_job_logs(name, is_master=is_master, follow=follow)
        assert {pod: text.replace("\n", "") for pod, text in logs.items()} == {
            pod: log_of(pod).replace("\n", "") for pod in pods
        }
        assert not events
    assert ("line 2" in capsys.readouterr().out) is follow


def test_events_come_with_the_logs(running):
    kind, client, name = running
    _, events = client.get_job_logs(name, verbose=True)
    assert events[f"{kind.name.lower()}/{name}"]


@each_kind
def test_an_update_suspends_and_resumes_a_job_which_then_succeeds_and_is_deleted(cluster, kind):
    client, name = client_of(cluster, kind.name), f"{kind.name.lower()}-whole"
    client.create_job(model_of(kind, name))
    wait_for(client, name, "Running")
    client.update_job(model_of(kind, name, suspend=True), name)
    until(lambda: "Suspended" in true_conditions(client, name) and not client.get_job_pods(name))
    assert not client.is_job_running(name)
    client.update_job(model_of(kind, name, suspend=False), name)
    wait_for(client, name, "Running")
    for pod in [deciding_pod(kind, name)] if kind.lead else client.get_job_pod_names(name):
        cluster.end(pod)
    states = []
    job = client.wait_for_job_conditions(
        name, wait_timeout=60, polling_interval=POLL_S, callback=lambda job: states.append(job.metadata.name)
    )
    assert client.is_job_succeeded(job=job)
    assert set(states) == {name}
    client.delete_job(name)
    with pytest.raises(RuntimeError, match="404"):
        client.get_job(name)
    assert name not in [each.metadata.name for each in client.list_jobs()]


@each_kind
def test_a_failed_job_is_an_error_for_a_client_that_waits_for_success(cluster, kind):
    client, name = client_of(cluster, kind.name), f"{kind.name.lower()}-fails"
    client.create_job(model_of(kind, name, restart="Never"))
    wait_for(client, name, "Running")
    cluster.end(deciding_pod(kind, name), code=1)
    assert client.is_job_failed(job=wait_for(client, name, "Failed", "Succeeded"))
    with pytest.raises(RuntimeError, match="is Failed"):
        wait_for(client, name, "Succeeded")
    client.delete_job(name)


@each_kind
def test_a_job_whose_pod_is_replaced_is_restarting_until_it_runs(cluster, kind):
    client, name = client_of(cluster, kind.name), f"{kind.name.lower()}-again"
    client.create_job(model_of(kind, name, restart="ExitCode"))
    wait_for(client, name, "Running")
    with cluster.unstartable():
        cluster.end(f"{name}-worker-0", code=137)
        assert client.is_job_restarting(job=wait_for(client, name, "Restarting", "Failed", "Succeeded"))
        client.delete_job(name)
        until(lambda: not client.get_job_pods(name))


def test_a_job_of_an_image_has_the_size_that_the_call_names(cluster):
    client = client_of(cluster)
    client.create_job(
        name="image",
        base_image="example.com/train:1",
        num_workers=3,
        num_procs_per_worker=2,
        resources_per_worker={"cpu": 1, "memory": "1Gi", "gpu": 1},
        env_vars={"MINE": "1"},
        labels={"team": "vision"},
        annotations={"note": "first"},
        volumes=[models.V1Volume(name="shm", empty_dir=models.V1EmptyDirVolumeSource(medium="Memory"))],
        volume_mounts=[models.V1VolumeMount(name="shm", mount_path="/dev/shm")],
    )
    job = wait_for(client, "image", "Running")
    assert (job.metadata.labels["team"], job.metadata.annotations["note"]) == ("vision", "first")
    assert set(client.get_job_pod_names("image")) == {"image-master-0", "image-worker-0", "image-worker-1"}
    for pod in client.get_job_pods("image"):
        (container,) = pod.spec.containers
        assert container.resources.limits == {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
        variables = {each.name: each.value for each in container.env}
        assert (variables["MINE"], variables["PET_NPROC_PER_NODE"], variables["PET_NNODES"]) == ("1", "2", "3")
        assert "/dev/shm" in [each.mount_path for each in container.volume_mounts]
    client.delete_job("image")


def learn(parameters: dict[str, str]) -> None:
    print(parameters)  # noqa: T201 - a user's function


def test_a_job_of_a_function_runs_it_in_every_replica(cluster):
    client = client_of(cluster, "TFJob")
    client.create_job(
        name="function",
        train_func=learn,
        parameters={"lr": "0.1"},
        num_workers=2,
        num_chief_replicas=1,
        num_ps_replicas=1,
    )
    wait_for(client, "function", "Running")
    pods = client.get_job_pods("function")
    assert {pod.metadata.name.removeprefix("function-") for pod in pods} == {"chief-0", "ps-0", "worker-0", "worker-1"}
    assert all("learn({'lr': '0.1'})" in pod.spec.containers[0].args[0] for pod in pods)
    client.delete_job("function")


def test_a_queue_that_does_not_exist_in_kueue_does_not_hold_a_job_up(cluster):
    client = client_of(cluster)
    client.create_job(model_of(V1[0], "queued"), queue_name="missing")
    assert wait_for(client, "queued", "Running").metadata.labels["kueue.x-k8s.io/queue-name"] == "missing"
    client.delete_job("queued")


class Parameters:
    """Stands for a class of transformers or peft: keeps what it is made with."""

    def __init__(self, **words: Any) -> None:
        self.words = words

    def to_dict(self) -> dict[str, Any]:
        return self.words


@pytest.fixture
def extra(monkeypatch):
    """Stand-ins for the packages of the extra `huggingface`, transformers and peft, which are gigabytes."""
    auto = ("SequenceClassification", "TokenClassification", "QuestionAnswering", "CausalLM", "MaskedLM")
    names = [*(f"AutoModelFor{each}" for each in (*auto, "ImageClassification")), "TrainingArguments"]
    transformers = types.ModuleType("transformers")
    vars(transformers).update({name: type(name, (Parameters,), {}) for name in names})
    peft = types.ModuleType("peft")
    vars(peft).update(LoraConfig=type("LoraConfig", (Parameters,), {}))
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    monkeypatch.setitem(sys.modules, "peft", peft)
    yield transformers, peft
    sys.modules.pop("kubeflow.storage_initializer.hugging_face", None)


def test_train_waits_for_its_claim_and_then_runs(cluster, extra):
    from kubeflow.storage_initializer.hugging_face import (  # noqa: PLC0415 - needs the extra
        HuggingFaceDatasetParams,
        HuggingFaceModelParams,
        HuggingFaceTrainerParams,
    )

    transformers, peft = extra
    client = client_of(cluster)
    client.train(
        name="tuned",
        num_workers=2,
        num_procs_per_worker=1,
        resources_per_worker={"gpu": 1},
        model_provider_parameters=HuggingFaceModelParams("hf://org/model", transformers.AutoModelForCausalLM),
        dataset_provider_parameters=HuggingFaceDatasetParams("org/data"),
        trainer_parameters=HuggingFaceTrainerParams(
            transformers.TrainingArguments(output_dir="out"), peft.LoraConfig(r=8)
        ),
    )
    assert client.is_job_created(job=wait_for(client, "tuned", "Created"))
    bind_claim(cluster, "tuned")
    wait_for(client, "tuned", "Running")
    pods = {pod.metadata.name: pod for pod in client.get_job_pods("tuned")}
    assert set(pods) == {"tuned-master-0", "tuned-worker-0"}
    assert "storage-initializer" in [each.name for each in pods["tuned-master-0"].spec.init_containers]
    client.delete_job("tuned")


def bind_claim(cluster: UserCluster, name: str) -> None:
    """Binds a claim to a volume, as the controller of volumes does."""
    source = {"hostPath": {"path": "/tmp"}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}
    volume = {**source, "capacity": {"storage": "10Gi"}}
    cluster.post(VOLUMES, {"metadata": {"name": name}, "spec": volume})
    cluster.patch(f"{CLAIMS}/{name}", {"spec": {"volumeName": name}})
    cluster.patch(f"{CLAIMS}/{name}/status", {"status": {"phase": "Bound", "capacity": {"storage": "10Gi"}}})
