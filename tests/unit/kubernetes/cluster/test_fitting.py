"""Jobs fitted to their cluster."""

import json

import pytest
import yaml
from cluster_objects import claim, metadata, pod, volume

from windlass.core.job import Match
from windlass.jobs.kubernetes.kinds import read
from windlass.jobs.kubernetes.parsed import Parsed
from windlass.worlds.kubernetes.client import objects
from windlass.worlds.kubernetes.cluster.fitting import Surroundings, asks, fitted, singles
from windlass.worlds.kubernetes.cluster.volumes import Stock, storage_class

AFFINITY = """
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
  - {topologyKey: TOPOLOGY, labelSelector: {matchLabels: {LABELS}}}
"""


def job(worker="", master="", gpu="nvidia.com/gpu", **run_policy):
    """A PyTorchJob of a master and four workers."""
    container = {"name": "pytorch", "image": "digits:1", "resources": {"limits": {gpu: 2}}}

    def template(more):
        return {"template": {"spec": {"containers": [container], **(yaml.safe_load(more) or {})}}}

    replicas = {"Master": template(master), "Worker": {"replicas": 4, **template(worker)}}
    manifest = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "digits", "namespace": "team", "uid": "u"},
        "spec": {"runPolicy": run_policy, "pytorchReplicaSpecs": replicas},
    }
    parsed = read(manifest)
    assert isinstance(parsed, Parsed), parsed
    return parsed


def priority(name, value, **more):
    return objects.priority_class(json.dumps({"metadata": metadata(name), "value": value, **more}))


def anti(labels, topology="kubernetes.io/hostname"):
    return {"affinity": yaml.safe_load(AFFINITY.replace("LABELS", labels).replace("TOPOLOGY", topology))}


def with_affinity(labels, **more):
    return yaml.safe_dump(anti(labels, **more))


def test_a_pod_is_one_of_its_node_s_pods_and_wants_gpus_of_its_kind():
    workers = fitted(job(), Surroundings()).job.roles[1]
    assert (workers.resources["gpu"], workers.resources["pods"]) == (2, 1)
    assert workers.node_selector == {"windlass.dev/gpu": "nvidia.com/gpu"}
    assert fitted(job(gpu="amd.com/gpu"), Surroundings()).job.roles[1].node_selector == {
        "windlass.dev/gpu": "amd.com/gpu"
    }


def test_who_asks_for_no_gpu_goes_anywhere():
    assert not fitted(job(gpu="cpu"), Surroundings()).job.roles[0].node_selector


@pytest.mark.parametrize(
    ("labels", "written", "queue"),
    [
        ({}, {}, "default"),
        ({"windlass.dev/queue": "vision"}, {}, "vision"),
        ({"windlass.dev/queue": "a"}, {"queue": "b"}, "b"),
    ],
)
def test_the_queue_is_the_job_s_or_the_namespace_s(labels, written, queue):
    assert fitted(job(schedulingPolicy=written), Surroundings(labels)).job.queue == queue


def test_a_priority_class_by_name():
    known = {"high": priority("high", 1000), "usual": priority("usual", 7, globalDefault=True)}
    high = job("priorityClassName: high")
    assert fitted(high, Surroundings(priorities=known)).job.priority == 1000
    assert fitted(job(), Surroundings(priorities=known)).job.priority == 7
    assert fitted(high, Surroundings()).trouble == "there is no PriorityClass high; create it, or name another"


def test_a_class_that_would_not_preempt_is_told_that_it_may():
    meek = {"meek": priority("meek", 1000, preemptionPolicy="Never")}
    (warning,) = fitted(job("priorityClassName: meek"), Surroundings(priorities=meek)).warnings
    assert warning == "priorityClassName meek: preemptionPolicy Never is not heeded by the scheduler"


DATA = "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]"


def test_volumes_and_the_pod_s_own_affinity_hold_together():
    terms = "[{matchExpressions: [{key: gen, operator: Exists}]}]"
    wish = f"nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: {terms}}}}}"
    data = claim("data", "{volumeName: pv-1}", namespace="team")
    stock = Stock({("team", "data"): data}, {"pv-1": volume("pv-1", {"zone": ["a"]})})
    found = fitted(job(f"{DATA}\naffinity: {{{wish}}}"), Surroundings(stock=stock))
    master, workers = found.job.roles
    assert master.affinity == ()
    assert workers.affinity == ((Match("gen", "Exists"), Match("zone", "In", ("a",))),)
    assert not found.trouble


def test_a_claim_that_is_not_there_is_trouble():
    assert "there is no PersistentVolumeClaim data" in fitted(job(DATA), Surroundings()).trouble


def test_a_claim_that_waits_is_to_be_told_its_node_and_one_for_one_node_is_told():
    data = claim("data", "{storageClassName: ebs, accessModes: [ReadWriteOnce]}", "Pending", namespace="team")
    waits = storage_class({"metadata": {"name": "ebs"}, "volumeBindingMode": "WaitForFirstConsumer"})
    stock = Stock({("team", "data"): data}, {}, {"ebs": waits})
    found = fitted(job(DATA, DATA), Surroundings(stock=stock))
    assert found.to_choose == ("data",)
    assert found.warnings == ("worker: 4 pods mount data, and one node at a time may (ReadWriteOnce)",)


def test_pods_that_may_not_share_a_node_ask_for_what_a_node_has_one_of():
    found = fitted(job(with_affinity("training.kubeflow.org/replica-type: worker")), Surroundings())
    master, workers = found.job.roles
    assert workers.resources["apart/team/pytorchjob/digits"] == 1
    assert master.resources == {"gpu": 2, "pods": 1}
    assert singles(found.job) == {"apart/team/pytorchjob/digits"}
    assert not found.warnings


def test_roles_that_may_not_meet_ask_for_the_same():
    found = fitted(job(with_affinity("training.kubeflow.org/job-name: digits")), Surroundings())
    assert [role.resources.get("apart/team/pytorchjob/digits") for role in found.job.roles] == [1, 1]


@pytest.mark.parametrize(
    "worker",
    [with_affinity("app: others"), with_affinity("training.kubeflow.org/job-name: digits", topology="zone")],
)
def test_other_anti_affinity_is_not_heeded_and_told_so(worker):
    found = fitted(job(worker), Surroundings())
    assert not singles(found.job)
    assert found.warnings == ("Worker: podAntiAffinity is not heeded by the scheduler",)


def test_what_a_pod_that_exists_asks_for():
    seen = pod("web", "{containers: [{name: a, resources: {limits: {nvidia.com/gpu: '2', cpu: '1'}}}]}")
    assert asks(seen) == {"gpu": 2, "cpu": 1000, "pods": 1}
