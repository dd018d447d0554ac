"""The steps of a TrainJob: initializers run before the trainer, in the order of the runtime's `dependsOn`."""

import copy
from dataclasses import replace

import pytest
import yaml

from windlass.core.model.status import Phase, Status
from windlass.jobs.kubernetes.kinds.registry import dependent_objects, members, read
from windlass.jobs.kubernetes.settings import Settings
from windlass.jobs.kubernetes.status.job_status import status_of
from windlass.jobs.kubernetes.status.member_conditions import Counts
from windlass.jobs.kubernetes.train_runtimes import NOT_SUPPORTED

RUNTIME = yaml.safe_load("""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: tune}
spec:
  mlPolicy: {numNodes: 2, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: dataset-initializer
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}
          spec:
            template:
              spec: &pod
                volumes: [{name: initializer, persistentVolumeClaim: {claimName: shared}}]
                containers:
                - name: dataset-initializer
                  image: data:1
                  env: [{name: STORAGE_URI, value: "hf://default"}, {name: KEPT, value: "1"}]
                  volumeMounts: [{name: initializer, mountPath: /workspace}]
      - name: model-initializer
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: model-initializer}}
          spec:
            template:
              spec:
                volumes: [{name: initializer, persistentVolumeClaim: {claimName: shared}}]
                containers:
                - name: model-initializer
                  image: model:1
                  volumeMounts: [{name: initializer, mountPath: /workspace}]
      - name: node
        dependsOn: [{name: dataset-initializer, status: Complete}, {name: model-initializer, status: Complete}]
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                volumes: [{name: initializer, persistentVolumeClaim: {claimName: shared}}]
                containers: [{name: node, image: "train:1", volumeMounts: [{name: initializer, mountPath: /workspace}]}]
""")
JOBS = RUNTIME["spec"]["template"]["spec"]["replicatedJobs"]
INITIALIZER = {
    "dataset": {"storageUri": "hf://mine", "env": [{"name": "PART", "value": "2"}], "secretRef": {"name": "token"}},
    "model": {"storageUri": "s3://model"},
}


def job(**spec):
    about = {"name": "digits", "namespace": "ml", "uid": "u1"}
    spec = {"runtimeRef": {"name": "tune"}, **spec}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": about, "spec": spec}


def with_jobs(*jobs):
    """Settings with the runtime of these jobs."""
    runtime = copy.deepcopy(RUNTIME)
    runtime["spec"]["template"]["spec"]["replicatedJobs"] = list(jobs)
    return Settings(runtimes=lambda *_named: runtime)


def waiting(name, **others):
    """The trainer's job, or another like it, under a name that waits for others in these states."""
    made = {**copy.deepcopy(JOBS[2]), "name": name}
    made["dependsOn"] = [{"name": other.replace("_", "-"), "status": state} for other, state in others.items()]
    if name != "node":
        del made["template"]["metadata"]
    return made


def steps(*jobs):
    parsed = read(job(), with_jobs(*jobs))
    return {role.name: role.step for role in parsed.job.roles}


def container(name):
    parsed = read(job(initializer=INITIALIZER), with_jobs(*JOBS))
    pods = {member.role: member.pod for member in members(parsed, 1)}
    return pods[name]["spec"]["containers"][0]


def test_initializers_run_side_by_side_before_the_trainer():
    assert steps(*JOBS) == {"dataset-initializer": 0, "model-initializer": 0, "node": 1}


def test_initializers_run_one_after_the_other_if_the_runtime_says_so():
    chain = [JOBS[0], {**JOBS[1], "dependsOn": [{"name": "dataset-initializer", "status": "Complete"}]}]
    node = waiting("node", model_initializer="Complete")
    assert steps(*chain, node) == {"dataset-initializer": 0, "model-initializer": 1, "node": 2}


def test_a_job_that_has_only_to_be_ready_starts_together_with_its_dependents():
    server = waiting("server")
    node = waiting("node", server="Ready", dataset_initializer="Complete")
    assert steps(JOBS[0], server, node) == {"dataset-initializer": 0, "server": 1, "node": 1}


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([waiting("node", export="Complete"), waiting("export")], "'export' is no job of the runtime before node"),
        (
            [waiting("server"), waiting("load", server="Ready"), waiting("node", load="Complete")],
            "has to go on after a step that waits for it",
        ),
        ([JOBS[0], waiting("node", dataset_initializer="Started")], "expects Complete or Ready"),
    ],
)
def test_an_order_that_cannot_be_kept_is_a_fault_of_the_runtime(jobs, message):
    fault = read(job(), with_jobs(*jobs))
    assert (fault.reason, message in str(fault)) == (NOT_SUPPORTED, True), str(fault)


def test_an_initializer_has_the_values_of_the_job():
    data = container("dataset-initializer")
    written = {each["name"]: each["value"] for each in data["env"]}
    assert written.items() >= {"STORAGE_URI": "hf://mine", "KEPT": "1", "PART": "2"}.items()
    assert data["envFrom"] == [{"secretRef": {"name": "token"}}]
    assert {"name": "STORAGE_URI", "value": "s3://model"} in container("model-initializer")["env"]
    assert "STORAGE_URI" not in {each["name"] for each in container("node")["env"]}


def test_every_pod_mounts_the_volume_of_the_runtime():
    parsed = read(job(), with_jobs(*JOBS))
    for member in members(parsed, 1):
        (volume,) = member.pod["spec"]["volumes"]
        assert volume == {"name": "initializer", "persistentVolumeClaim": {"claimName": "shared"}}


def claiming(**policy):
    """Settings with a runtime that makes the claim of its volume."""
    runtime = copy.deepcopy(RUNTIME)
    job_set = runtime["spec"]["template"]["spec"]
    for each in job_set["replicatedJobs"]:
        del each["template"]["spec"]["template"]["spec"]["volumes"]
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "20Gi"}},
        "storageClassName": "fast",
    }
    template = {"metadata": {"name": "initializer", "labels": {"team": "a"}}, "spec": spec}
    job_set["volumeClaimPolicies"] = [{"templates": [template], **policy}]
    return Settings(runtimes=lambda *_named: runtime)


def test_a_job_makes_the_claims_of_its_runtime_and_its_pods_mount_them():
    parsed = read(job(), claiming())
    assert parsed.claims == {"initializer-digits": "fast"}
    claim = next(each for each in dependent_objects(parsed) if each["kind"] == "PersistentVolumeClaim")
    assert claim["metadata"]["name"] == "initializer-digits"
    assert claim["metadata"]["labels"] == {"team": "a", "jobset.sigs.k8s.io/jobset-name": "digits"}
    assert claim["metadata"]["ownerReferences"][0]["uid"] == "u1"
    assert claim["spec"]["resources"] == {"requests": {"storage": "20Gi"}}
    for member in members(parsed, 1):
        (volume,) = member.pod["spec"]["volumes"]
        assert volume == {"name": "initializer", "persistentVolumeClaim": {"claimName": "initializer-digits"}}


def test_a_claim_that_is_to_be_retained_has_no_owner():
    parsed = read(job(), claiming(retentionPolicy={"whenDeleted": "Retain"}))
    claim = next(each for each in dependent_objects(parsed) if each["kind"] == "PersistentVolumeClaim")
    assert "ownerReferences" not in claim["metadata"]


def test_an_unknown_retention_is_a_fault_of_the_runtime():
    fault = read(job(), claiming(retentionPolicy={"whenDeleted": "Keep"}))
    assert (fault.reason, "expects Delete or Retain" in str(fault)) == (NOT_SUPPORTED, True)


def test_the_pods_of_a_step_are_made_without_those_of_the_others():
    parsed = read(job(), with_jobs(*JOBS))
    first = members(parsed, 1, {"dataset-initializer": 1, "model-initializer": 1, "node": 0})
    assert [each.name for each in first] == ["digits-dataset-initializer-0-0", "digits-model-initializer-0-0"]
    second = members(parsed, 2, {"dataset-initializer": 0, "model-initializer": 0, "node": 2})
    assert [each.name for each in second] == ["digits-node-0-0", "digits-node-0-1"]
    assert {"name": "PET_NNODES", "value": "2"} in second[0].pod["spec"]["containers"][0]["env"]


def without_mount():
    made = copy.deepcopy(JOBS[0])
    del made["template"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    return made


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([waiting("node")], "the runtime has no job dataset-initializer, which spec.initializer.dataset configures"),
        (
            [without_mount(), waiting("node")],
            "the runtime has no volumeMount initializer in the container dataset-init",
        ),
    ],
)
def test_a_runtime_without_the_initializer_of_a_job_is_refused(jobs, message):
    fault = read(job(initializer={"dataset": {"storageUri": "hf://mnist"}}), with_jobs(*jobs))
    assert (fault.reason, fault.message.startswith(message)) == (NOT_SUPPORTED, True), fault.message


def test_variables_of_an_initializer_are_not_patched():
    patch = {"name": "dataset-initializer", "env": [{"name": "A", "value": "1"}]}
    override = {"targetJobs": [{"name": "dataset-initializer"}], "spec": {"containers": [patch]}}
    assert "write it into spec.trainer.env or spec.initializer" in str(
        read(job(podTemplateOverrides=[override]), with_jobs(*JOBS))
    )


def counted(life, **counts):
    parsed = read(job(), with_jobs(*JOBS))
    by_role = {name.replace("_", "-"): Counts(*numbers) for name, numbers in counts.items()}
    shown = status_of(parsed, life, by_role, {}, 0)["jobsStatus"]
    return {each["name"]: {name for name, number in each.items() if number == 1} for each in shown}


def test_the_status_counts_each_job_in_its_step():
    first = Status(phase=Phase.RUNNING)
    begun = counted(first, dataset_initializer=(0, 1, 0), model_initializer=(1, 0, 0))
    assert begun == {"dataset-initializer": {"succeeded"}, "model-initializer": {"ready", "active"}, "node": set()}
    second = counted(replace(first, step=1), node=(2, 0, 0))
    ended = {"dataset-initializer": {"succeeded"}, "model-initializer": {"succeeded"}}
    assert second == {**ended, "node": {"ready", "active"}}
    assert counted(Status(phase=Phase.FAILED, step=1), node=(0, 0, 1)) == {**ended, "node": {"failed"}}
    assert counted(Status(phase=Phase.SUSPENDED, step=1)) == {**ended, "node": {"suspended"}}
