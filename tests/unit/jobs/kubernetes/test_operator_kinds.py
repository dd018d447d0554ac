"""The training operator's other kinds, and the variables that each adds to its pods."""

import json

import pytest
import yaml

from windlass.jobs.kubernetes.kinds.registry import dependent_objects, members, read
from windlass.jobs.kubernetes.settings import Settings


def job(kind, roles, container, **spec):
    """A job with this number of replicas in each role."""
    field = {"TFJob": "tf", "JAXJob": "jax", "XGBoostJob": "xgb", "PaddleJob": "paddle"}[kind] + "ReplicaSpecs"
    pod = {"spec": {"containers": [{"name": container, "image": "i"}, {"name": "logs", "image": "l"}]}}
    replicas = {role: {"replicas": count, "template": pod} for role, count in roles.items()}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "j", "namespace": "team"},
        "spec": {field: replicas, **spec},
    }


def env(member, container=0):
    return {each["name"]: each.get("value") for each in member.pod["spec"]["containers"][container].get("env", [])}


def leads(manifest):
    """The pods with the label of a master."""
    labelled = [(each.name, each.pod["metadata"]["labels"]) for each in members(read(manifest), 1)]
    return [name for name, labels in labelled if labels.get("training.kubeflow.org/job-role") == "master"]


def test_only_the_training_container_has_tf_config():
    chief, *_, worker = members(read(job("TFJob", {"Chief": 1, "PS": 1, "Worker": 2}, "tensorflow")), 1)
    assert [chief.name, worker.name] == ["j-chief-0", "j-worker-1"]
    variables = json.loads(env(worker)["TF_CONFIG"])
    assert variables["cluster"]["chief"] == ["j-chief-0.team.svc:2222"]
    assert variables["task"] == {"type": "worker", "index": 1}
    assert env(worker, container=1) == {}


def test_tf_config_names_the_clusters_domain_where_an_installation_has_one():
    settings = Settings(cluster_domain="cluster.local")
    first, _ = members(read(job("TFJob", {"Worker": 2}, "tensorflow"), settings), 1)
    assert "j-worker-0.team.svc.cluster.local:2222" in env(first)["TF_CONFIG"]


def test_a_tfjob_of_one_pod_is_no_cluster():
    (alone,) = members(read(job("TFJob", {"Worker": 1}, "tensorflow")), 1)
    assert env(alone) == {}


def test_dynamic_workers_know_only_the_servers():
    manifest = job("TFJob", {"ps": 1, "worker": 2}, "tensorflow", enableDynamicWorker=True)
    *_, worker = members(read(manifest), 1)
    assert json.loads(env(worker)["TF_CONFIG"])["cluster"] == {
        "worker": {"1": "j-worker-1.team.svc:2222"},
        "ps": ["j-ps-0.team.svc:2222"],
    }


@pytest.mark.parametrize(
    ("manifest", "master"),
    [
        (job("TFJob", {"Chief": 1, "Worker": 2}, "tensorflow"), ["j-chief-0"]),
        (job("TFJob", {"PS": 1, "Worker": 2}, "tensorflow"), ["j-worker-0"]),
        (job("JAXJob", {"Worker": 2}, "jax"), ["j-worker-0"]),
        (job("XGBoostJob", {"Master": 1, "Worker": 2}, "xgboost"), ["j-master-0"]),
        (job("PaddleJob", {"Worker": 2}, "paddle"), []),
        (job("PaddleJob", {"Master": 2, "Worker": 2}, "paddle"), ["j-master-0", "j-master-1"]),
    ],
)
def test_the_leading_pod_is_labelled_as_the_master(manifest, master):
    assert leads(manifest) == master


@pytest.mark.parametrize(
    ("kind", "roles", "container"),
    [
        ("TFJob", {"Evaluator": 1, "Worker": 2, "PS": 1, "Chief": 1}, "tensorflow"),
        ("XGBoostJob", {"Worker": 2, "Master": 1}, "xgboost"),
        ("PaddleJob", {"Worker": 2, "Master": 1}, "paddle"),
        ("JAXJob", {"Worker": 2}, "jax"),
    ],
)
def test_workers_are_scaled_while_a_job_runs_whatever_other_roles_it_has(kind, roles, container):
    scaled = [role.name for role in read(job(kind, roles, container)).job.roles if role.scales_in_place]
    assert scaled == ["worker"]


def test_jax_processes_are_numbered():
    _, second = members(read(job("JAXJob", {"Worker": 2}, "jax")), 1)
    assert env(second)["PROCESS_ID"] == "1"
    assert env(second, container=1)["COORDINATOR_ADDRESS"] == "j-worker-0"


def test_xgboost_workers_know_each_other():
    *_, worker = members(read(job("XGBoostJob", {"Master": 1, "Worker": 2}, "xgboost")), 1)
    assert env(worker)["RANK"] == "2"
    assert env(worker)["WORKER_ADDRS"] == "j-worker-0,j-worker-1"


def test_the_first_paddle_worker_reads_its_own_address_before_it_is_used():
    first, second = members(read(job("PaddleJob", {"Worker": 2}, "paddle")), 1)
    address, *_ = first.pod["spec"]["containers"][0]["env"]
    assert address == {"name": "POD_IP_DUMMY", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    assert env(first)["PADDLE_MASTER"] == "$(POD_IP_DUMMY):36543"
    assert env(second)["PADDLE_MASTER"] == "j-worker-0:36543"
    assert "POD_IP_DUMMY" not in env(second)


def test_a_paddle_job_may_be_elastic():
    policy = yaml.safe_load("{minReplicas: 1, maxReplicas: 3}")
    (worker,) = read(job("PaddleJob", {"Worker": 2}, "paddle", elasticPolicy=policy)).job.roles
    assert (worker.min_replicas, worker.replicas, worker.max_replicas) == (1, 2, 3)


@pytest.mark.parametrize(
    ("kind", "roles", "container", "port"),
    [
        ("TFJob", {"Worker": 2}, "tensorflow", {"name": "tfjob-port", "port": 2222}),
        ("JAXJob", {"Worker": 2}, "jax", {"name": "jaxjob-port", "port": 6666}),
        ("XGBoostJob", {"Master": 1}, "xgboost", {"name": "xgboostjob-port", "port": 9999}),
        ("PaddleJob", {"Worker": 2}, "paddle", {"name": "master", "port": 36543}),
    ],
)
def test_every_pod_has_a_service_with_the_kinds_port(kind, roles, container, port):
    found = dependent_objects(read(job(kind, roles, container)))
    assert len(found) == sum(roles.values())
    assert all(each["spec"]["ports"] == [port] for each in found)


@pytest.mark.parametrize(("kind", "policy"), [("TFJob", "Never"), ("JAXJob", "Never"), ("PaddleJob", "OnFailure")])
def test_restart_policies_by_default(kind, policy):
    container = {"TFJob": "tensorflow", "JAXJob": "jax", "PaddleJob": "paddle"}[kind]
    (first,) = members(read(job(kind, {"Worker": 1}, container)), 1)
    assert first.pod["spec"]["restartPolicy"] == policy


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (
            job("TFJob", {"Chief": 1, "Master": 1}, "tensorflow"),
            "spec.tfReplicaSpecs: has a Chief and a Master, which are the same thing; keep the Chief",
        ),
        (
            job("TFJob", {"Worker": 1}, "tensorflow", successPolicy="Most"),
            "spec.successPolicy: expects AllWorkers, not 'Most'",
        ),
        (
            job("TFJob", {"Worker": 0}, "tensorflow"),
            "spec.tfReplicaSpecs: asks for no pods at all; write replicas: 1 at least once",
        ),
        (
            job("XGBoostJob", {"Worker": 1}, "xgboost"),
            "spec.xgbReplicaSpecs: has no Master; every job of this kind has one",
        ),
        (
            job("JAXJob", {"Worker": 1, "worker": 1}, "jax"),
            "spec.jaxReplicaSpecs.worker: is the Worker a second time; write it once",
        ),
    ],
)
def test_faults_of_single_kinds(manifest, message):
    assert str(read(manifest)) == message
