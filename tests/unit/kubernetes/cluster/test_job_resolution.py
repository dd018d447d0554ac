"""Jobs resolved in their cluster."""

import json

import pytest
import yaml
from cluster_objects import claim, metadata, volume
from hypothesis import given
from hypothesis import strategies as st

from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.cluster.job_resolution import (
    NamespaceLookups,
    ResolvedJob,
    resolve_job,
    with_level_name,
)
from windlass.backends.kubernetes.cluster.topology_levels import levels_of
from windlass.backends.kubernetes.cluster.volumes import StorageObjects, storage_class
from windlass.core.model.job import Job, Match, Role, TopologyRequest
from windlass.core.model.resources import is_exclusive
from windlass.jobs.kubernetes.kinds.registry import read
from windlass.jobs.kubernetes.parsed_job import ParsedJob

FIELDS = [
    *(
        "podAntiAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "topologyKey",
        "labelSelector",
        "matchLabels",
    ),
    *("matchExpressions", "key", "operator", "values", "name", "persistentVolumeClaim", "claimName", "ephemeral"),
]


def manifest_of(worker, master=None, gpu="nvidia.com/gpu", run_policy=None):
    """A PyTorchJob of a master and four workers."""
    container = {"name": "pytorch", "image": "digits:1", "resources": {"limits": {gpu: 2}}}
    templates = [{"spec": {"containers": [container], **(more or {})}} for more in (master, worker)]
    replicas = {"Master": {"template": templates[0]}, "Worker": {"replicas": 4, "template": templates[1]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "digits", "namespace": "team", "uid": "u"},
        "spec": {"runPolicy": run_policy or {}, "pytorchReplicaSpecs": replicas},
    }


def job(worker="", master="", gpu="nvidia.com/gpu", **run_policy):
    parsed = read(manifest_of(yaml.safe_load(worker), yaml.safe_load(master), gpu, run_policy))
    assert isinstance(parsed, ParsedJob), parsed
    return parsed


def priority(name, value, **more):
    return objects.priority_class(json.dumps({"metadata": metadata(name), "value": value, **more}))


def with_affinity(labels, topology="kubernetes.io/hostname", **more):
    term = {"topologyKey": topology, "labelSelector": {"matchLabels": yaml.safe_load(labels)}, **more}
    anti = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return yaml.safe_dump({"affinity": {"podAntiAffinity": anti}})


def test_a_pod_counts_as_a_pod_of_its_node_and_requests_gpus_of_its_kind():
    workers = resolve_job(job(), NamespaceLookups()).job.roles[1]
    assert (workers.resources["gpu"], workers.resources["pods"]) == (2, 1)
    assert workers.node_selector == {"windlass.dev/gpu": "nvidia.com/gpu"}
    assert resolve_job(job(gpu="amd.com/gpu"), NamespaceLookups()).job.roles[1].node_selector == {
        "windlass.dev/gpu": "amd.com/gpu"
    }


def test_a_pod_without_gpus_fits_every_node():
    assert not resolve_job(job(gpu="cpu"), NamespaceLookups()).job.roles[0].node_selector


@pytest.mark.parametrize(
    ("labels", "written", "queue"),
    [
        ({}, {}, "default"),
        ({"windlass.dev/queue": "vision"}, {}, "vision"),
        ({"windlass.dev/queue": "a"}, {"queue": "b"}, "b"),
    ],
)
def test_the_queue_is_that_of_the_job_or_the_namespace(labels, written, queue):
    assert resolve_job(job(schedulingPolicy=written), NamespaceLookups(labels)).job.queue == queue


def test_a_priority_class_is_resolved_by_name():
    known = {"high": priority("high", 1000), "usual": priority("usual", 7, globalDefault=True)}
    high = job("priorityClassName: high")
    assert resolve_job(high, NamespaceLookups(priorities=known)).job.priority == 1000
    assert resolve_job(job(), NamespaceLookups(priorities=known)).job.priority == 7
    assert resolve_job(high, NamespaceLookups()).trouble == "there is no PriorityClass high; create it, or name another"


def test_a_class_that_never_preempts_causes_a_warning():
    meek = {"meek": priority("meek", 1000, preemptionPolicy="Never")}
    (warning,) = resolve_job(job("priorityClassName: meek"), NamespaceLookups(priorities=meek)).warnings
    assert warning == "priorityClassName meek: preemptionPolicy Never is ignored by the scheduler"


DATA = "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]"


def test_volumes_and_the_affinity_of_the_pod_are_combined():
    terms = "[{matchExpressions: [{key: gen, operator: Exists}]}]"
    wish = f"nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: {terms}}}}}"
    data = claim("data", "{volumeName: pv-1}", namespace="team")
    stock = StorageObjects({("team", "data"): data}, {"pv-1": volume("pv-1", {"zone": ["a"]})})
    found = resolve_job(job(f"{DATA}\naffinity: {{{wish}}}"), NamespaceLookups(stock=stock))
    master, workers = found.job.roles
    assert master.affinity == ()
    assert workers.affinity == ((Match("gen", "Exists"), Match("zone", "In", ("a",))),)
    assert not found.trouble


def test_a_missing_claim_is_reported():
    assert "there is no PersistentVolumeClaim data" in resolve_job(job(DATA), NamespaceLookups()).trouble


def test_an_unbound_claim_gets_its_node_and_a_single_node_claim_causes_a_warning():
    data = claim("data", "{storageClassName: ebs, accessModes: [ReadWriteOnce]}", "Pending", namespace="team")
    waits = storage_class({"metadata": {"name": "ebs"}, "volumeBindingMode": "WaitForFirstConsumer"})
    stock = StorageObjects({("team", "data"): data}, {}, {"ebs": waits})
    found = resolve_job(job(DATA, DATA), NamespaceLookups(stock=stock))
    assert found.to_choose == ("data",)
    assert found.warnings == ("worker: 4 pods mount data, and one node at a time may (ReadWriteOnce)",)


WORKERS, ALL = "training.kubeflow.org/replica-type: worker", "training.kubeflow.org/job-name: digits"


def exclusives(job):
    return {name for role in job.roles for name in role.resources if is_exclusive(name)}


def apart(labels):
    return f"apart/team/{labels.replace(': ', '=')}"


def test_pods_that_may_not_share_a_node_request_an_exclusive_resource():
    found = resolve_job(job(with_affinity(WORKERS)), NamespaceLookups())
    master, workers = found.job.roles
    assert workers.resources[apart(WORKERS)] == 1
    assert apart(WORKERS) not in master.resources
    assert exclusives(found.job) == {apart(WORKERS)}
    assert not found.warnings


def test_a_single_pod_excluded_by_others_requests_the_same_resource():
    found = resolve_job(job(with_affinity(ALL)), NamespaceLookups())
    assert [role.resources.get(apart(ALL)) for role in found.job.roles] == [1, 1]


@pytest.mark.parametrize(
    "worker", [with_affinity("app: others"), with_affinity(ALL, topology="zone"), with_affinity(ALL, namespaces=["b"])]
)
def test_other_anti_affinity_is_ignored_with_a_warning(worker):
    found = resolve_job(job(worker), NamespaceLookups())
    assert not exclusives(found.job)
    assert found.warnings == ("Worker: podAntiAffinity is ignored by the scheduler",)


def test_a_level_may_be_requested_by_its_label():
    block = {"topology.kubernetes.io/zone": "a", "cloud.google.com/gce-topology-block": "b"}
    asked = Job("j", (Role(),), topology=TopologyRequest("cloud.google.com/gce-topology-block", required=False))
    assert with_level_name(asked, levels_of([block])).topology == TopologyRequest("block", required=False)
    assert with_level_name(Job("j", ()), levels_of([block])).topology is None


def test_two_kinds_of_gpu_in_one_pod_are_refused():
    more = "containers: [{name: pytorch, image: x, resources: {limits: {nvidia.com/gpu: 1, amd.com/gpu: 1}}}]"
    trouble = resolve_job(job(more), NamespaceLookups()).trouble
    assert trouble == "worker: asks for amd.com/gpu and nvidia.com/gpu in one pod; ask for one kind, or use two roles"


ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["affinity", "volumes", "nodeSelector"]), ODD))
def test_any_template_is_resolved_without_an_exception(more):
    parsed = read(manifest_of(more))
    if isinstance(parsed, ParsedJob):
        assert isinstance(resolve_job(parsed, NamespaceLookups()), ResolvedJob)
