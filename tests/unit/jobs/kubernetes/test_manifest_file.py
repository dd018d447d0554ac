"""Files of manifests and short jobs, as the objects that they become."""

import pytest
import yaml

from windlass.jobs.description.job_file import loads
from windlass.jobs.errors import InputError
from windlass.jobs.kubernetes.manifests.job_file_objects import objects_of_jobs
from windlass.jobs.kubernetes.manifests.manifest_file import as_list, as_yaml, holds_manifests, objects_of
from windlass.jobs.syntax.text import Text

JAX = """\
apiVersion: kubeflow.org/v1
kind: JAXJob
metadata: {name: sum}
spec:
  jaxReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - {name: jax, image: "sum:1"}
"""
CONFIG = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {lines: "one\\ntwo\\n", number: "1e3", word: "y"}
"""


def of(text):
    return objects_of(Text("job.yaml", text))


def named(objects):
    return [f"{each['kind']}/{each['metadata']['name']}" for each in objects]


def test_every_document_becomes_its_objects_and_other_kinds_stay():
    found = of(f"{JAX}---\n{CONFIG}")
    assert named(found.objects) == [
        "Service/sum-worker-0",
        "Service/sum-worker-1",
        "Pod/sum-worker-0",
        "Pod/sum-worker-1",
        "ConfigMap/settings",
    ]
    assert found.warnings == []


def test_a_list_of_objects_is_its_items():
    items = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(CONFIG), yaml.safe_load(JAX)]})
    assert named(of(items).objects)[:2] == ["ConfigMap/settings", "Service/sum-worker-0"]


def test_a_suspended_job_becomes_no_objects():
    found = of(JAX.replace("spec:\n  jax", "spec:\n  runPolicy: {suspend: true}\n  jax", 1))
    assert found.objects == []


def test_printed_objects_are_read_back_unchanged():
    objects = of(f"{JAX}---\n{CONFIG}").objects
    written = as_yaml(objects)
    assert list(yaml.safe_load_all(written)) == objects
    assert "&id" not in written
    assert "number: '1e3'" in written  # a float to readers of YAML 1.2
    assert "word: 'y'" in written
    assert "lines: |\n" in written
    assert as_list(objects)["items"] == objects


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            JAX.replace("replicas: 2", "replicas: two"),
            "job.yaml:7:7: spec.jaxReplicaSpecs.Worker.replicas: expects a whole",
        ),
        (
            JAX.replace("name: jax", "name: main"),
            "job.yaml:10:11: spec.jaxReplicaSpecs.Worker.template.spec.containers: no",
        ),
        (JAX.replace("JAXJob", "JAXjob"), "job.yaml:2:1: kind: 'JAXjob' is no kind of job that is known here; did you"),
        (
            JAX + "---\ncommand: python train.py\n",
            "job.yaml:13:1: kind: expects a kind of job: JAXJob, MPIJob, Notebook, PaddleJob, PyTorchJob, TFJob",
        ),
        (JAX + "---\n- 1\n", "job.yaml:13:1: the manifest: expects a mapping, not a list"),
    ],
)
def test_a_fault_is_reported_with_its_line(text, message):
    with pytest.raises(InputError) as raised:
        of(text)
    assert str(raised.value).startswith(message)


def test_short_jobs_are_distinguished_from_manifests():
    assert holds_manifests(Text("job.yaml", JAX))
    assert not holds_manifests(Text("job.yaml", "command: python train.py"))


SHORT = """\
name: digits
command: torchrun train.py
nodes: 2
gpus: 2
mem: 16Gi
gpu_type: [h100]
selector: {zone: a}
grace: 25s
image: digits:1
"""


def pods_of(text):
    return objects_of_jobs(loads(text, source="job.yaml")).objects


def test_a_short_job_becomes_pods_behind_one_service():
    service, first, second = pods_of(SHORT)
    assert service == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "digits", "namespace": "default", "labels": {"windlass.dev/job-name": "digits"}},
        "spec": {
            "clusterIP": "None",
            "selector": {"windlass.dev/job-name": "digits"},
            "publishNotReadyAddresses": True,
        },
    }
    assert first["metadata"]["name"] == "digits-worker-0"
    assert second["metadata"] == {
        "name": "digits-worker-1",
        "namespace": "default",
        "labels": {
            "windlass.dev/job-name": "digits",
            "windlass.dev/role": "worker",
            "windlass.dev/replica-index": "1",
            "windlass.dev/generation": "1",
        },
    }
    spec = second["spec"]
    assert (spec["hostname"], spec["subdomain"], spec["schedulerName"]) == ("digits-worker-1", "digits", "windlass")
    assert (spec["terminationGracePeriodSeconds"], spec["nodeSelector"]) == (25, {"zone": "a"})
    assert "affinity" not in spec  # a kubelet would turn away whom the scheduler sent by another label
    (container,) = spec["containers"]
    assert (container["image"], container["command"]) == ("digits:1", ["torchrun", "train.py"])
    assert container["resources"] == {"requests": {"memory": "16Gi"}, "limits": {"nvidia.com/gpu": "2"}}


def test_the_pods_of_a_short_job_have_the_usual_variables_of_ranks():
    *_, second = pods_of(SHORT)
    node, *others = second["spec"]["containers"][0]["env"]
    assert node == {"name": "WINDLASS_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    variables = {each["name"]: each["value"] for each in others}
    assert (variables["PET_NNODES"], variables["PET_NODE_RANK"], variables["PET_NPROC_PER_NODE"]) == ("2", "1", "2")
    assert (variables["MASTER_ADDR"], variables["MASTER_PORT"]) == ("digits-worker-0.digits", "29500")
    assert variables["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_a_slice_of_a_gpu_has_the_name_of_the_device_plugin():
    _, pod = pods_of("command: python train.py\nmig: 1g.10gb\nimage: a:1")
    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {"limits": {"nvidia.com/mig-1g.10gb": "1"}}
    assert "CUDA_VISIBLE_DEVICES" not in {each["name"] for each in container["env"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SHORT.replace("image: digits:1", ""), "job.yaml: image: is missing; write the container image that holds the"),
        (
            "command: python a.py\ngpus: 2\nimage: i",
            "job.yaml: the command starts one process in each pod, and 2 are a",
        ),
        ("command: python a.py\ngpu_share: 0.5\nimage: i", "job.yaml: Kubernetes has no resource for a part of a GPU"),
        ("command: python a.py\narray: 0-3\nimage: i", "job.yaml: an array is many jobs; render it without its array"),
    ],
)
def test_a_job_that_cannot_become_pods_is_refused_with_the_fix(text, message):
    with pytest.raises(InputError) as raised:
        pods_of(text)
    assert str(raised.value).startswith(message)
