"""TrainingJobs: job files as objects, and the pods that they become."""

import copy
from dataclasses import replace

import pytest
import yaml

from windlass.core.model.job import ArrayMember, Job, Role, Toleration
from windlass.jobs.description.job_file import loads
from windlass.jobs.kubernetes.kinds.registry import dependent_objects, members, read
from windlass.jobs.kubernetes.manifest_reader import Fault
from windlass.jobs.kubernetes.manifests.trainingjob_manifest import training_job
from windlass.jobs.kubernetes.settings import Settings

DIGITS = yaml.safe_load("""
apiVersion: windlass.dev/v1alpha1
kind: TrainingJob
metadata: {name: digits, namespace: team, uid: 7c1e, labels: {team: vision}}
spec:
  image: digits:1
  command: torchrun train.py
  workdir: /app
  nodes: 2
  gpus: 2
  queue: research
  priority: 5
  time: 2h
  ttl: 1d
  restarts: 3
  grace: 25s
""")


def job(**fields):
    manifest = copy.deepcopy(DIGITS)
    manifest["spec"].update(fields)
    return manifest


def variables_of(member):
    return {each["name"]: each.get("value") for each in member.pod["spec"]["containers"][0]["env"]}


def tolerating(job):
    """The job with the toleration that pods with GPUs get on a cluster."""
    taint = Toleration("nvidia.com/gpu", "Exists", effect="NoSchedule")
    return replace(job, roles=tuple(replace(role, tolerations=(taint,)) for role in job.roles))


def test_the_spec_has_the_fields_of_a_job_file():
    (written,) = loads(yaml.safe_dump({"name": "digits", **DIGITS["spec"]}))
    parsed = read(DIGITS)
    assert parsed.job == replace(tolerating(written.job), labels={"team": "vision"})
    assert (parsed.name, parsed.namespace, parsed.uid) == ("digits", "team", "7c1e")
    assert (parsed.run_policy.gang_restart, parsed.run_policy.queue, parsed.run_policy.ttl_ms) == (
        True,
        "research",
        86_400_000,
    )


def test_a_member_becomes_a_pod_with_its_variables():
    _, second = members(read(DIGITS), generation=3)
    assert (second.name, second.role, second.index) == ("digits-worker-1", "worker", 1)
    owner = {"apiVersion": "windlass.dev/v1alpha1", "kind": "TrainingJob", "name": "digits", "uid": "7c1e"}
    assert second.pod["metadata"] == {
        "name": "digits-worker-1",
        "namespace": "team",
        "labels": {
            "team": "vision",
            "windlass.dev/job-name": "digits",
            "windlass.dev/role": "worker",
            "windlass.dev/replica-index": "1",
            "windlass.dev/generation": "3",
        },
        "ownerReferences": [{**owner, "blockOwnerDeletion": True, "controller": True}],
    }
    env = second.pod["spec"]["containers"][0].pop("env")
    assert second.pod["spec"] == {
        "hostname": "digits-worker-1",
        "subdomain": "digits",
        "restartPolicy": "Never",
        "schedulerName": "windlass",
        "terminationGracePeriodSeconds": 25,
        "containers": [
            {
                "name": "main",
                "image": "digits:1",
                "command": ["torchrun", "train.py"],
                "workingDir": "/app",
                "resources": {"limits": {"nvidia.com/gpu": "2"}},
            }
        ],
    }
    assert env[0] == {"name": "WINDLASS_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    variables = {each["name"]: each.get("value") for each in env}
    assert (variables["WINDLASS_GENERATION"], variables["PET_NODE_RANK"], variables["PET_NNODES"]) == ("3", "1", "2")
    assert (variables["MASTER_ADDR"], variables["MASTER_PORT"]) == ("digits-worker-0.digits", "29500")


def test_a_label_names_the_queue_where_the_spec_does_not():
    labelled = job(queue="other")
    labelled["metadata"]["labels"] = {"windlass.dev/queue": "research"}
    assert read(labelled).job.queue == "other"
    del labelled["spec"]["queue"]
    assert (read(labelled).job.queue, read(labelled).run_policy.queue) == ("research", "research")


@pytest.mark.parametrize("place", ["metadata", "spec"])
def test_a_label_that_no_local_queue_of_kueue_can_have_as_name_is_refused(place):
    manifest = job()
    manifest[place]["labels"] = {"kueue.x-k8s.io/queue-name": "Bad Queue"}
    fault = read(manifest)
    assert isinstance(fault, Fault)
    assert "expects the name of a LocalQueue of Kueue" in str(fault)


def test_one_service_names_every_pod():
    service, secret = dependent_objects(read(DIGITS))
    assert (secret["kind"], secret["data"]) == ("Secret", {"secret": ""}), "the backend makes a random one"
    assert (service["metadata"]["name"], service["spec"]["selector"]) == ("digits", {"windlass.dev/job-name": "digits"})
    assert dependent_objects(read(job(suspend=True))) == []


def test_a_resized_gang_gets_its_present_size():
    elastic = job(elastic={"min": 2, "max": 8})
    del elastic["spec"]["nodes"]
    made = members(read(elastic), 2, {"worker": 3})
    assert [member.name for member in made] == ["digits-worker-0", "digits-worker-1", "digits-worker-2"]
    assert {variables_of(member)["PET_NNODES"] for member in made} == {"3"}
    assert len(members(read(elastic), 2)) == 8


def test_the_pod_field_is_merged_over_the_template():
    pod = {
        "metadata": {"annotations": {"note": "kept"}},
        "spec": {
            "serviceAccountName": "trainer",
            "imagePullSecrets": [{"name": "registry"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "digits"}}],
            "nodeSelector": {"pool": "train"},
            "containers": [
                {
                    "name": "main",
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    "env": [
                        {"name": "OMP_NUM_THREADS", "value": "7"},
                        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
                    ],
                },
                {"name": "logs", "image": "logs:1", "resources": {"requests": {"cpu": "250m"}}},
            ],
        },
    }
    parsed = read(job(pod=pod))
    first = members(parsed, 1)[0].pod
    spec, (main, logs) = first["spec"], first["spec"]["containers"]
    assert first["metadata"]["annotations"] == {"note": "kept"}
    assert (spec["serviceAccountName"], spec["volumes"][0]["name"]) == ("trainer", "data")
    assert (main["image"], main["volumeMounts"][0]["mountPath"]) == ("digits:1", "/data")
    assert [each["name"] for each in main["env"]].count("OMP_NUM_THREADS") == 1
    assert "env" not in logs
    # What it adds is what the scheduler sees.
    (role,) = parsed.job.roles
    assert (role.resources, role.node_selector) == ({"gpu": 2, "cpu": 250}, {"pool": "train"})


def test_a_variable_without_a_name_is_left_to_the_api_server():
    nameless = {"spec": {"containers": [{"name": "main", "env": [{"value": "7"}]}]}}
    env = members(read(job(pod=nameless)), 1)[0].pod["spec"]["containers"][0]["env"]
    assert env[0] == {"value": "7"}


def test_values_that_are_no_labels_are_annotations():
    about = members(read(job(labels={"team": "vision", "why": "a long story, told badly"})), 1)[0].pod["metadata"]
    assert about["labels"]["team"] == "vision"
    assert about["annotations"] == {"why": "a long story, told badly"}


def test_an_installation_may_request_pod_groups():
    elastic = job(elastic={"min": 2, "max": 8}, mem="1Gi")
    del elastic["spec"]["nodes"]
    parsed = read(elastic, Settings(pod_groups=True))
    group = dependent_objects(parsed)[0]
    assert (group["kind"], group["metadata"]["name"]) == ("PodGroup", "digits")
    assert group["spec"] == {"minMember": 2, "minResources": {"nvidia.com/gpu": "4", "memory": "2Gi"}}
    assert members(parsed, 1)[0].pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "digits"


def test_a_manifest_omits_idle_fields():
    plain = Job("digits", (Role(command=("torchrun", "a.py"), image="i", resources={"gpu": 1}),), user="ada")
    manifest = training_job(plain, "digits-7", "team")
    assert manifest["metadata"] == {
        "name": "digits-7",
        "namespace": "team",
        "annotations": {"windlass.dev/name": "digits", "windlass.dev/user": "ada"},
    }
    assert not {"queue", "env", "time", "after", "suspend", "workdir", "name"} & set(manifest["spec"])
    assert read(manifest).job == tolerating(plain)


def test_a_member_of_an_array_stays_one():
    one = Job("sum", (Role(command=("torchrun", "a.py"), image="i"),), array=ArrayMember("sum-7", 3, 2))
    parsed = read(training_job(one, "sum-7-3"))
    assert parsed.job == one
    assert variables_of(members(parsed, 1)[0])["JOB_COMPLETION_INDEX"] == "3"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "other"}, "spec.name: the object's own name is the job's; leave this one out"),
        ({"nodes": "two"}, "spec.nodes: expects a whole number from 1 to 100000, not 'two'"),
        ({"time": "1"}, "spec.time: "),
        ({"elastic": {"min": 1, "max": 2}}, "spec.elastic: elastic and nodes both say how many; keep one of them"),
        ({"image": None}, "spec.image: is missing; write the container image that holds the program"),
        ({"array": "0-3"}, "spec.array: an array is many jobs; hand it in with windlass submit"),
        ({"workdir": "src"}, "spec.workdir: expects a folder of the image, with a slash first"),
        ({"command": "python a.py"}, "spec: the command starts one process in each pod, and "),
        ({"pod": {"spec": {"containers": [{"name": "b"}]}}}, "spec.pod.spec.containers[1].image: expects the"),
        ({"pod": {"spec": {"containers": None}}}, "spec.pod.spec.containers: expects one container at least"),
        ({"pod": []}, "spec.pod: is a mapping such as"),
    ],
)
def test_faults_have_the_messages_of_job_files(fields, message):
    fault = read(job(**fields))
    assert isinstance(fault, Fault)
    assert str(fault).startswith(message)


def test_an_unknown_field_is_an_error_in_a_file_and_accepted_in_the_cluster():
    manifest = job(replicas=2, restart={"user": 1, "later": True})
    del manifest["spec"]["restarts"]
    parsed = read(manifest)
    assert parsed.job.roles[0].replicas == 2
    assert parsed.warnings == (
        "spec.replicas is not known to this version of Windlass, and is left out",
        "spec.restart.later is not known to this version of Windlass, and is left out",
    )
    del manifest["metadata"]["uid"]
    assert str(read(manifest)).startswith("spec.replicas: unknown field 'replicas'; it is called 'nodes' here")


def test_a_name_that_is_invalid_for_pods_is_refused():
    manifest = copy.deepcopy(DIGITS)
    manifest["metadata"]["name"] = "d" * 60
    assert str(read(manifest)).startswith("metadata.name: is 6 characters too long")
