"""Unknown fields: each class of mistake by example, and fields that are valid."""

import pytest
import yaml

from windlass.jobs.errors import InputError
from windlass.jobs.kubernetes.manifests.known_fields import Validate
from windlass.jobs.kubernetes.manifests.known_fields.messages import give_hint, warnings_of_job_file
from windlass.jobs.kubernetes.manifests.known_fields.types import KINDS, known_types
from windlass.jobs.kubernetes.manifests.manifest_file import objects_of
from windlass.jobs.kubernetes.train_runtimes import built_in
from windlass.jobs.syntax.text import Text

PYTORCH = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: digits, labels: {anything: goes}}
spec:
  runPolicy: {backoffLimit: 3}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          nodeSelector: {zone: a}
          containers:
          - name: pytorch
            image: digits:1
            env: [{name: A, value: b}]
            resources: {limits: {nvidia.com/gpu: 1}}
"""
TRAINJOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: finetune}
spec:
  runtimeRef: {name: torch-distributed}
  trainer: {numNodes: 2}
"""
OURS = """\
apiVersion: windlass.dev/v1alpha1
kind: TrainingJob
metadata: {name: digits}
spec:
  image: digits:1
  command: python train.py
  pod: {spec: {priorityClassName: high}}
"""
BATCH = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 3 * * *"
  jobTemplate: {spec: {parallelism: 4, template: {spec: {containers: [{name: main, image: "nightly:1"}]}}}}
"""


def read(text, validate=Validate.STRICT):
    return objects_of(Text("job.yaml", text), validate)


def refusal(text, validate=Validate.STRICT):
    with pytest.raises(InputError) as raised:
        read(text, validate)
    return raised.value


def problems(text, validate=Validate.STRICT):
    return [f"{each.place.line}:{each.place.column} {each.message}" for each in refusal(text, validate).problems]


REPLICA = "spec.pytorchReplicaSpecs.Worker"
POD = f"{REPLICA}.template.spec"


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("runPolicy:", "runPolcy:", "5:3 spec.runPolcy: unknown field; did you mean 'runPolicy'?"),
        ("backoffLimit", "backoffLmit", "5:15 spec.runPolicy.backoffLmit: unknown field; did you mean 'backoffLimit'?"),
        ("labels", "lables", "3:26 metadata.lables: unknown field; did you mean 'labels'?"),
        ("restartPolicy", "restartPolicey", f"9:7 {REPLICA}.restartPolicey: unknown field; did you mean 'restartPol"),
        ("        spec:", "        sepc:", f"11:9 {REPLICA}.template.sepc: unknown field; did you mean 'spec'?"),
        ("containers", "Containers", f"13:11 {POD}.Containers: unknown field; did you mean 'containers'?"),
        ("nodeSelector", "nodeselector", f"12:11 {POD}.nodeselector: unknown field; did you mean 'nodeSelector'?"),
        ("resources", "resource", f"17:13 {POD}.containers[0].resource: unknown field; did you mean 'resources'?"),
        ("limits", "limit", f"17:25 {POD}.containers[0].resources.limit: unknown field; did you mean 'limits'?"),
        ("value", "vlaue", f"16:29 {POD}.containers[0].env[0].vlaue: unknown field; did you mean 'value'?"),
        ("spec:", "sepc: {}\nspec:", "4:1 sepc: unknown field; did you mean 'spec'?"),
        (
            "{name: A",
            "{zzz: 1, name: A",
            f"16:20 {POD}.containers[0].env[0].zzz: unknown field; valid are name, valu",
        ),
    ],
)
def test_an_unknown_field_is_refused_with_its_line_and_a_suggestion(right, wrong, message):
    (problem,) = problems(PYTORCH.replace(right, wrong, 1))
    assert problem.startswith(message)


@pytest.mark.parametrize(
    ("text", "before", "line", "message"),
    [
        (PYTORCH, "  runPolicy", "  backoffLimit: 3", "spec.backoffLimit: unknown field; it belongs in spec.runPolicy"),
        (
            PYTORCH,
            "  runPolicy",
            "  suspnd: true",
            "spec.suspnd: unknown field; did you mean 'suspend' in spec.runPolicy?",
        ),
        (PYTORCH, "      template", "      volumes: []", f"{REPLICA}.volumes: unknown field; it belongs in {POD}"),
        (
            PYTORCH,
            "            env",
            "            tolerations: []",
            f"{POD}.containers[0].tolerations: unknown field; it belongs in {POD}",
        ),
        (TRAINJOB, "  trainer", "  image: tune:1", "spec.image: unknown field; it belongs in spec.trainer"),
        (OURS, "  image", "  gpus_per_node: 4", "spec.gpus_per_node: unknown field; it is called 'gpus' here"),
    ],
)
def test_a_misplaced_field_is_reported_with_its_right_place(text, before, line, message):
    (problem,) = problems(text.replace(f"\n{before}", f"\n{line}\n{before}", 1))
    assert problem.endswith(f" {message}")


@pytest.mark.parametrize(
    ("text", "right", "wrong", "where"),
    [
        (TRAINJOB, "numNodes", "numNode", "spec.trainer"),
        (OURS, "command", "comand", "spec"),
        (OURS, "priorityClassName", "priorityClass", "spec.pod.spec"),
        (BATCH, "schedule", "shedule", "spec"),
        (BATCH, "parallelism", "paralellism", "spec.jobTemplate.spec"),
    ],
)
def test_every_kind_is_checked(text, right, wrong, where):
    (problem,) = problems(text.replace(right, wrong, 1))
    assert problem.endswith(f" {where}.{wrong}: unknown field; did you mean {right!r}?")


def test_all_problems_of_a_file_are_reported_at_once_and_the_fix_last():
    text = PYTORCH.replace("runPolicy: {backoffLimit", "runPolcy: {backoffLmit").replace("replicas: 2", "replicas: two")
    error = refusal(f"{text}---\n{TRAINJOB.replace('numNodes', 'nmNodes')}")
    assert [(each.place.line, each.message.partition(":")[0]) for each in error.problems] == [
        (5, "spec.runPolcy"),
        (5, "spec.runPolcy.backoffLmit"),
        (8, "spec.pytorchReplicaSpecs.Worker.replicas"),
        (24, "spec.trainer.nmNodes"),
    ]
    assert str(error).splitlines()[-1] == give_hint()


def test_errors_that_follow_from_an_unknown_field_are_not_reported():
    assert len(problems(PYTORCH.replace("        spec:", "        sepc:"))) == 1
    assert len(problems(PYTORCH.replace("name: pytorch", "nmae: pytorch"))) == 1


def test_a_field_under_an_anchor_is_reported_once():
    text = PYTORCH.replace("Worker:", "Master: &same").replace("replicas: 2", "replicas: 1").replace("image:", "imag:")
    assert len(problems(f"{text}    Worker:\n      <<: *same\n")) == 1
    assert len(problems(f"{text}    Worker: *same\n")) == 1


def test_a_list_of_objects_is_checked():
    items = [yaml.safe_load(PYTORCH), yaml.safe_load(BATCH.replace("schedule", "shedule"))]
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items})
    assert len(problems(text)) == 1


def test_the_output_of_kubectl_get_is_accepted():
    manifest = yaml.safe_load(PYTORCH)
    manifest["metadata"] |= {
        "uid": "7c1e",
        "resourceVersion": "489",
        "generation": 1,
        "creationTimestamp": None,
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b"}],
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:runPolicy": {}}}}],
    }
    manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["metadata"] = {"creationTimestamp": None}
    manifest["status"] = {"conditions": [], "whatever": 1}
    assert read(yaml.safe_dump(manifest)).warnings == []


@pytest.mark.parametrize("framework", ["torch", "jax", "xgboost", "deepspeed", "mlx"])
def test_the_shipped_runtimes_are_accepted(framework):
    runtime = built_in("ClusterTrainingRuntime", "", f"{framework}-distributed")
    assert read(yaml.safe_dump(runtime)).objects == [runtime]


def test_foreign_kinds_are_not_checked():
    other = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {anything: {goes: 1}}\n"
    assert read(other).objects == [yaml.safe_load(other)]


def test_an_unknown_field_is_reported_and_passed_on_under_warn():
    found = read(PYTORCH.replace("resources", "resource"), Validate.WARN)
    assert found.warnings == [
        f"job.yaml:17: {POD}.containers[0].resource: unknown field; did you mean 'resources'?",
    ]
    pod = next(each for each in found.objects if each["kind"] == "Pod")
    assert pod["spec"]["containers"][0]["resource"] == {"limits": {"nvidia.com/gpu": 1}}


def test_an_unknown_field_is_not_reported_under_ignore():
    assert read(PYTORCH.replace("resources", "resource"), Validate.IGNORE).warnings == []
    assert read(OURS.replace("image", "nods: 2\n  image"), Validate.IGNORE).warnings == []


def test_an_invalid_job_is_refused_under_warn_too_with_both_messages():
    text = PYTORCH.replace("        spec:", "        sepc:")
    assert [each.rpartition(": ")[2] for each in problems(text, Validate.WARN)] == [
        "expects one container at least, with a name and an image",
        "unknown field; did you mean 'spec'?",
    ]
    assert give_hint() not in str(refusal(text, Validate.WARN))


def test_the_pod_of_a_job_file_is_checked():
    text = Text("job.yaml", "command: a\npod: {spec: {nodeSelectr: {a: b}}}\nroles: {a: {pod: {sepc: {}}}}\n")
    with pytest.raises(InputError) as raised:
        warnings_of_job_file(text, Validate.STRICT)
    assert [each.message for each in raised.value.problems] == [
        "pod.spec.nodeSelectr: unknown field; did you mean 'nodeSelector'?",
        "roles.a.pod.sepc: unknown field; did you mean 'spec'?",
    ]
    assert len(warnings_of_job_file(text, Validate.WARN)) == 2
    assert warnings_of_job_file(text, Validate.IGNORE) == []


def test_every_referenced_type_is_known():
    types = known_types()
    named = {shape.strip("[]{}") for each in types.values() for shape in each.fields.values()} | set(KINDS.values())
    assert named - {""} <= types.keys()
