"""The runtime of a TrainJob: where it is found, the snapshot that the job keeps, and the fields that are refused."""

import copy

import pytest
import yaml

from windlass.jobs.kubernetes.kinds.registry import members, read
from windlass.jobs.kubernetes.manifest_reader import Fault
from windlass.jobs.kubernetes.manifests.manifest_file import objects_of
from windlass.jobs.kubernetes.settings import Settings
from windlass.jobs.kubernetes.train_runtimes import (
    FIELD,
    NOT_FOUND,
    NOT_SUPPORTED,
    built_in,
    snapshot_of,
    standard_runtimes,
)
from windlass.jobs.syntax.text import Text

RUNTIME = yaml.safe_load("""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch-distributed, labels: {trainer.kubeflow.org/framework: torch}}
spec:
  mlPolicy: {numNodes: 3, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                initContainers: [{name: check, image: "check:1"}]
                containers:
                - {name: node, image: "site:7", resources: {requests: {cpu: 2}}}
                - {name: logs, image: "logs:1"}
""")


def edited(*path, value, runtime=RUNTIME):
    """The runtime with one field changed: `path` is below its spec."""
    made = copy.deepcopy(runtime)
    part = made["spec"]
    for name in path[:-1]:
        part = part[name] if isinstance(name, int) else part.setdefault(name, {})
    part[path[-1]] = value
    return made


def job(annotations=None, status=None, **spec):
    metadata = {"name": "digits", "namespace": "team", "annotations": annotations or {}}
    reference = {"name": "torch-distributed", **spec.pop("runtimeRef", {})}
    made = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": metadata}
    return {**made, "spec": {"runtimeRef": reference, **spec}, **({"status": status} if status else {})}


def having(*runtimes):
    """Settings of a cluster with these runtimes and no others."""
    found = {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in runtimes}
    return Settings(runtimes=lambda kind, namespace, name: found.get((kind, namespace, name)))


def images(parsed):
    return [each["image"] for each in members(parsed, 1)[0].pod["spec"]["containers"]]


def test_an_edited_runtime_decides_image_size_and_resources():
    parsed = read(job(), having(RUNTIME))
    assert (images(parsed), parsed.pod_count) == (["site:7", "logs:1"], 3)
    assert parsed.job.roles[0].resources == {"cpu": 2000}


def test_a_runtime_of_a_namespace_serves_that_namespace_only():
    reference = {"kind": "TrainingRuntime"}
    here = {**RUNTIME, "kind": "TrainingRuntime", "metadata": {"name": "torch-distributed", "namespace": "team"}}
    assert read(job(runtimeRef=reference), having(here)).pod_count == 3
    elsewhere = {**here, "metadata": {"name": "torch-distributed", "namespace": "other"}}
    fault = read(job(runtimeRef=reference), having(elsewhere))
    assert (fault.reason, "in namespace team" in fault.message) == (NOT_FOUND, True)


def test_a_missing_runtime_is_no_built_in_one_unless_the_job_asks_for_it():
    fault = read(job(), having())
    assert (fault.reason, "windlass operator install --trainer" in fault.message) == (NOT_FOUND, True)
    assert read(job({"windlass.dev/runtime": "built-in"}), having(RUNTIME)).pod_count == 1
    unknown = read(job({"windlass.dev/runtime": "built-in"}, runtimeRef={"name": "ours"}), having())
    assert unknown.reason == ""
    assert "expects cluster or built-in" in read(job({"windlass.dev/runtime": "mine"}), having()).message


@pytest.mark.parametrize("reference", [{"kind": "Runtime"}, {"apiGroup": "example.com"}])
def test_another_kind_of_runtime_is_unsupported_in_the_words_of_the_trainer(reference):
    fault = read(job(runtimeRef=reference), having(RUNTIME))
    kind, group = reference.get("kind", "ClusterTrainingRuntime"), reference.get("apiGroup", "trainer.kubeflow.org")
    assert fault.reason == NOT_SUPPORTED
    assert fault.message.startswith(f"unsupported runtime: {kind}.{group}")


def test_a_job_keeps_the_runtime_with_which_it_arrived():
    first = read(job(), having(RUNTIME))
    later = edited("mlPolicy", "numNodes", value=9)
    kept = job(status={FIELD: first.runtime.text})
    assert read(kept, having(later)).pod_count == 3
    assert read(kept, having()).runtime == first.runtime
    assert read(job(), having(later)).pod_count == 9


@pytest.mark.parametrize("text", ["{", "[]", "7", '{"kind": "ClusterTrainingRuntime"}', 7, None])
def test_an_unreadable_snapshot_counts_for_nothing(text):
    assert read(job(status={FIELD: text}), having(RUNTIME)).pod_count == 3


def test_a_snapshot_of_another_runtime_counts_for_nothing():
    other = snapshot_of({**RUNTIME, "metadata": {"name": "other"}}).text
    assert read(job(status={FIELD: other}), having()).reason == NOT_FOUND


JOB_SET = ("template", "spec")
NODE = (*JOB_SET, "replicatedJobs", 0)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("mlPolicy", "torch", "elasticPolicy"), {"minNodes": 1}),
        (("mlPolicy", "jax"), {}),
        (("mlPolicy", "flux"), {}),
        (("aFieldOfALaterTrainer",), {}),
        (("podGroupPolicy", "volcano"), {"networkTopology": {"mode": "hard"}}),
        ((*JOB_SET, "coordinator"), {"replicatedJob": "node"}),
        ((*JOB_SET, "failurePolicy", "rules"), [{"action": "FailJobSet"}]),
        ((*JOB_SET, "network", "enableDNSHostnames"), False),
        ((*JOB_SET, "successPolicy"), {"operator": "All", "targetReplicatedJobs": ["nowhere"]}),
        ((*NODE, "replicas"), "two"),
        ((*NODE, "groupName"), "left"),
        ((*NODE, "dependsOn"), [{"name": "other", "status": "Complete"}]),
        ((*NODE, "template", "spec", "podFailurePolicy"), {}),
        ((*NODE, "template", "spec", "completionMode"), "NonIndexed"),
        ((*NODE, "template", "spec", "template", "spec", "containers"), []),
    ],
)
def test_a_field_that_cannot_be_honoured_is_a_fault_of_the_runtime(path, value):
    fault = read(job(), having(edited(*path, value=value)))
    assert isinstance(fault, Fault)
    assert (fault.reason, fault.path[:2]) == (NOT_SUPPORTED, ("spec", "runtimeRef"))


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"podTemplateOverrides": [{"targetJobs": [{"name": "worker"}], "spec": {}}]}, "targetJobs[0].name"),
        ({"podSpecOverrides": [{"targetJobs": [{"name": "worker"}]}]}, "targetJobs[0].name"),
        ({"podSpecOverrides": [{"targetJobs": [{"name": "node"}], "containers": [{"name": "x"}]}]}, "containers[0]"),
    ],
)
def test_a_change_of_a_job_or_container_that_the_runtime_lacks_is_refused(changes, place):
    assert place in str(read(job(**changes), having(RUNTIME)))


def test_the_overrides_of_each_release_of_the_trainer_change_the_pods():
    node = [{"name": "node"}]
    spec = {"serviceAccountName": "ada", "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    for override in ({"podTemplateOverrides": [{"spec": spec}]}, {"podSpecOverrides": [spec]}):
        ((name, (changed,)),) = override.items()
        parsed = read(job(**{name: [{**changed, "targetJobs": node}]}), having(RUNTIME))
        made = members(parsed, 1)[0].pod["spec"]
        assert (made["serviceAccountName"], "gpu" in [each.get("key") for each in made["tolerations"]]) == ("ada", True)


def test_further_containers_have_the_variables_of_torchrun_where_the_runtime_says_so():
    targets = [{"jobName": "node", "containerNames": ["logs", "check"]}]
    parsed = read(job(), having(edited("mlPolicy", "torch", "envInjection", value={"targets": targets})))
    spec = members(parsed, 1)[2].pod["spec"]
    ranks = {
        each["name"]: {one["name"]: one.get("value") for one in each.get("env", ())}.get("PET_NODE_RANK")
        for each in (*spec["containers"], *spec["initContainers"])
    }
    assert ranks == {"node": "2", "logs": "2", "check": "2"}


@pytest.mark.parametrize(("number", "procs"), [(4, "4"), ("cpu", "2"), ("auto", "2"), ("gpu", "gpu")])
def test_the_number_of_processes_in_the_runtime_holds_where_the_job_names_none(number, procs):
    parsed = read(job(), having(edited("mlPolicy", "torch", "numProcPerNode", value=number)))
    (node, *_) = members(parsed, 1)[0].pod["spec"]["containers"]
    assert {"name": "PET_NPROC_PER_NODE", "value": procs} in node["env"]


def test_the_runtime_names_the_queue_the_deadline_and_the_job_that_decides():
    runtime = edited("template", "metadata", value={"labels": {"windlass.dev/queue": "research"}})
    runtime = edited(*NODE, "template", "spec", "activeDeadlineSeconds", value=60, runtime=runtime)
    runtime = edited(*JOB_SET, "successPolicy", value={"targetReplicatedJobs": ["node"]}, runtime=runtime)
    parsed = read(job(activeDeadlineSeconds=90), having(runtime))
    assert (parsed.job.queue, parsed.job.deadline, parsed.job.success.roles) == ("research", 60_000, ("node",))
    volcano = edited("podGroupPolicy", "volcano", value={})
    queue = {"scheduling.volcano.sh/queue-name": "vision"}
    parsed = read(job(), having(edited("template", "metadata", value={"annotations": queue}, runtime=volcano)))
    assert parsed.job.queue == "vision"


def test_fields_without_effect_are_warnings():
    runtime = edited("podGroupPolicy", "coscheduling", value={"scheduleTimeoutSeconds": 60})
    runtime["metadata"]["labels"]["trainer.kubeflow.org/support"] = "deprecated"
    runtime["spec"]["template"]["metadata"] = {"annotations": {"example.com/a": "b"}}
    parsed = read(job(labels={"a": "b"}), having(runtime))
    assert [each.partition(":")[2][:30] or each[:11] for each in parsed.warnings] == [
        " podGroupPolicy.coscheduling.s",
        " torch-distributed is deprecat",
        " example.com/a of the JobSet a",
        " they are those of the JobSet,",
    ]


def test_every_standard_runtime_can_be_used():
    runtimes = standard_runtimes()
    assert [each["metadata"]["name"] for each in runtimes] == [
        f"{name}-distributed" for name in ("torch", "jax", "xgboost", "deepspeed", "mlx")
    ]
    for each in runtimes:
        parsed = read(job(runtimeRef={"name": each["metadata"]["name"]}), having(each))
        assert parsed.warnings == ()
        assert each == built_in("ClusterTrainingRuntime", "", each["metadata"]["name"])


def test_a_file_for_a_cluster_may_name_a_runtime_that_only_the_cluster_has():
    text = Text("job.yaml", yaml.safe_dump(job(runtimeRef={"name": "site"})))
    assert objects_of(text, in_cluster=True).objects == []
