"""A PyTorchJob and the objects that it becomes."""

import pytest
import yaml

from windlass.core.model.job import Job, MemberRestart, RestartScope
from windlass.jobs.kubernetes.kinds.registry import dependent_objects, members, read
from windlass.jobs.kubernetes.kinds.run_policy import is_ours
from windlass.jobs.kubernetes.manifest_reader import Fault
from windlass.jobs.kubernetes.settings import Settings

DIGITS = yaml.safe_load("""
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: digits, namespace: team, uid: 7c1e}
spec:
  nprocPerNode: "2"
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          containers:
          - {name: pytorch, image: digits:1, env: [{name: EPOCHS, value: "3"}]}
    worker:
      replicas: 2
      restartPolicy: ExitCode
      template:
        metadata: {labels: {team: vision}, annotations: {note: kept}}
        spec:
          restartPolicy: Always
          priorityClassName: high
          initContainers: [{name: fetch, image: "fetch:1"}]
          containers:
          - {name: pytorch, image: "digits:1", ports: [{name: metrics, containerPort: 9100}]}
          - {name: logs, image: "logs:1"}
""")
OWNER = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "name": "digits",
    "uid": "7c1e",
    "blockOwnerDeletion": True,
    "controller": True,
}


def job(text, **metadata):
    """A job of one worker, with `text` as further fields of its spec."""
    spec = yaml.safe_load(text) or {}
    template = {"spec": {"containers": [{"name": "pytorch", "image": "digits:1"}]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "digits", **metadata},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"template": template}}, **spec},
    }


def rank_env(rank, generation):
    return [
        {"name": "PYTHONUNBUFFERED", "value": "1"},
        {"name": "MASTER_PORT", "value": "23456"},
        {"name": "PET_MASTER_PORT", "value": "23456"},
        {"name": "MASTER_ADDR", "value": "digits-master-0"},
        {"name": "PET_MASTER_ADDR", "value": "digits-master-0"},
        {"name": "WORLD_SIZE", "value": "6"},
        {"name": "RANK", "value": rank},
        {"name": "PET_NODE_RANK", "value": rank},
        {"name": "PET_NPROC_PER_NODE", "value": "2"},
        {"name": "PET_NNODES", "value": "3"},
        {"name": "WINDLASS_JOB_UID", "value": "7c1e"},
        {"name": "WINDLASS_GENERATION", "value": generation},
    ]


def test_a_master_becomes_a_pod_with_its_variables():
    master = members(read(DIGITS), generation=1)[0]
    assert (master.name, master.role, master.index) == ("digits-master-0", "master", 0)
    assert master.pod == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "digits-master-0",
            "namespace": "team",
            "labels": {
                "training.kubeflow.org/operator-name": "pytorchjob-controller",
                "training.kubeflow.org/job-name": "digits",
                "training.kubeflow.org/replica-type": "master",
                "training.kubeflow.org/replica-index": "0",
                "training.kubeflow.org/job-role": "master",
                "windlass.dev/generation": "1",
            },
            "ownerReferences": [OWNER],
        },
        "spec": {
            "priorityClassName": "high",  # of the job, so that quotas of classes count every pod
            "restartPolicy": "OnFailure",
            "schedulerName": "windlass",
            "containers": [
                {
                    "name": "pytorch",
                    "image": "digits:1",
                    "env": [{"name": "EPOCHS", "value": "3"}, *rank_env("0", "1")],
                    "ports": [{"name": "pytorchjob-port", "containerPort": 23456}],
                }
            ],
        },
    }


def test_a_worker_keeps_its_template_and_waits_for_the_master():
    worker = members(read(DIGITS), generation=4)[2]
    assert worker.name == "digits-worker-1"
    assert worker.pod["metadata"]["annotations"] == {"note": "kept"}
    labels = worker.pod["metadata"]["labels"]
    assert (labels["team"], labels["windlass.dev/generation"]) == ("vision", "4")
    assert "training.kubeflow.org/job-role" not in labels
    spec = worker.pod["spec"]
    assert spec["restartPolicy"] == "Never"  # whether a pod under ExitCode comes back is not the kubelet's to say
    assert spec["priorityClassName"] == "high"
    assert [container["name"] for container in spec["initContainers"]] == ["fetch", "init-pytorch"]
    assert "nslookup digits-master-0" in spec["initContainers"][1]["command"][2]
    pytorch, logs = spec["containers"]
    assert pytorch["ports"] == [
        {"name": "metrics", "containerPort": 9100},
        {"name": "pytorchjob-port", "containerPort": 23456},
    ]
    assert pytorch["env"] == logs["env"] == rank_env("2", "4")
    assert "ports" not in logs


def test_making_pods_leaves_the_manifest_as_it_was():
    before = yaml.safe_dump(DIGITS)
    members(read(DIGITS), generation=1)
    dependent_objects(read(DIGITS))
    assert yaml.safe_dump(DIGITS) == before


def test_every_pod_has_a_headless_service_of_its_name():
    master, _, worker = dependent_objects(read(DIGITS))
    labels = {
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/job-name": "digits",
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": "1",
    }
    assert worker == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "digits-worker-1", "namespace": "team", "labels": labels, "ownerReferences": [OWNER]},
        "spec": {
            "clusterIP": "None",
            "selector": labels,
            "ports": [{"name": "metrics", "port": 9100}, {"name": "pytorchjob-port", "port": 23456}],
        },
    }
    assert master["metadata"]["name"] == "digits-master-0"


def test_another_scheduler_name_is_kept():
    manifest = job("")
    manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["schedulerName"] = "volcano"
    (worker,) = members(read(manifest), 1)
    assert worker.pod["spec"]["schedulerName"] == "volcano"


def test_the_pods_of_a_job_without_an_object_have_no_owner():
    (worker,) = members(read(job("")), 1)
    assert "ownerReferences" not in worker.pod["metadata"]
    assert worker.pod["metadata"]["namespace"] == "default"


def test_without_a_master_the_first_worker_leads_and_no_worker_waits():
    (worker,) = members(read(job("")), 1)
    assert worker.pod["metadata"]["labels"]["training.kubeflow.org/job-role"] == "master"
    assert "initContainers" not in worker.pod["spec"]
    assert [each["name"] for each in worker.pod["spec"]["containers"][0]["env"]] == [
        "PYTHONUNBUFFERED",
        "PET_NPROC_PER_NODE",
        "PET_NNODES",
    ]


def test_a_job_is_a_gang_for_the_core():
    gang = read(DIGITS).job
    assert (gang.name, gang.members, gang.world_size) == ("digits", 3, 6)
    assert [(role.name, role.replicas, role.procs) for role in gang.roles] == [("master", 1, 2), ("worker", 2, 2)]
    assert read(DIGITS).priority_class == "high"


ELASTIC = "elasticPolicy: {minReplicas: 1, maxReplicas: 4, metrics: [{type: Resource, resource: {name: cpu}}]}"


def test_an_elastic_job_may_shrink_and_grow():
    parsed = read(job(ELASTIC))
    (worker,) = parsed.job.roles
    assert (worker.replicas, worker.min_replicas, worker.max_replicas) == (1, 1, 4)


def test_metrics_ask_for_an_autoscaler_while_the_job_is_not_suspended():
    _, autoscaler = dependent_objects(read(job(ELASTIC)))
    assert autoscaler == {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "digits", "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "digits"},
            "minReplicas": 1,
            "maxReplicas": 4,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu"}}],
        },
    }
    assert dependent_objects(read(job(ELASTIC + "\nrunPolicy: {suspend: true}"))) == []


@pytest.mark.parametrize(
    ("policy", "sizes"),
    [("{}", (1, 1)), ("{minReplicas: 1}", (1, 1)), ("{maxReplicas: 3}", (1, 3)), ("{minReplicas: 2}", (1, 2))],
)
def test_sizes_are_corrected_to_the_number_of_workers(policy, sizes):
    (worker,) = read(job(f"elasticPolicy: {policy}")).job.roles
    assert (worker.min_replicas, worker.max_replicas) == sizes


@pytest.mark.parametrize(("policy", "nodes"), [("{}", "1:1"), ("{minReplicas: 2}", "2:2"), ("{maxReplicas: 3}", "3:3")])
def test_a_missing_size_equals_the_other_one(policy, nodes):
    (worker,) = members(read(job(f"elasticPolicy: {policy}")), 1)
    variables = {each["name"]: each["value"] for each in worker.pod["spec"]["containers"][0]["env"]}
    assert variables["PET_NNODES"] == nodes


def test_the_run_policy_reaches_the_core():
    policy = """
    runPolicy:
      ttlSecondsAfterFinished: 60
      activeDeadlineSeconds: 3600
      backoffLimit: 3
      suspend: true
      cleanPodPolicy: Running
      schedulingPolicy: {queue: vision, minAvailable: 1, priorityClass: urgent}
    """
    parsed = read(job(policy))
    gang = parsed.job
    assert (gang.ttl, gang.deadline, gang.queue, gang.suspend) == (60_000, 3_600_000, "vision", True)
    assert (gang.restart.scope, gang.restart.member_limit, gang.grace) == (RestartScope.MEMBER, 3, 30_000)
    whole = read(job(policy.replace("runPolicy:", "runPolicy:\n      restartMode: gang"))).job.restart
    assert (whole.scope, whole.user_limit) == (RestartScope.GANG, 3)
    assert (parsed.run_policy.clean_pod_policy, parsed.priority_class) == ("Running", "urgent")
    assert {member.pod["spec"]["priorityClassName"] for member in members(parsed, generation=1)} == {"urgent"}


@pytest.mark.parametrize("policy", ["runPolicy: {backoffLimit: 0}", "", "runPolicy: {backoffLimit: 3}"])
@pytest.mark.parametrize("restart", ["Never", "OnFailure"])
def test_never_and_a_backoff_limit_of_0_mean_that_every_exit_ends_the_job(policy, restart):
    manifest = job(policy)
    for spec in manifest["spec"]["pytorchReplicaSpecs"].values():
        spec["restartPolicy"] = restart
    alone = read(manifest).job
    assert all((role.restart is MemberRestart.NEVER) == (restart == "Never") for role in alone.roles)
    assert (alone.restart.member_limit == 0) == ("0" in policy)
    manifest["metadata"]["annotations"] = {"windlass.dev/restart-mode": "gang"}
    found = read(manifest).job.restart
    none_allowed = restart == "Never" or "0" in policy
    assert found.restarts_after_exit == (not none_allowed)
    assert (found.user_limit == 0) == none_allowed


def test_defaults_are_those_of_the_operator():
    parsed = read(job(""))
    assert parsed.run_policy.clean_pod_policy == "None"
    assert parsed.replicas[0].restart_policy == "OnFailure"
    assert isinstance(parsed.job, Job)


def test_kubelets_restart_no_container_of_a_gang_that_restarts_whole():
    kept, gang = job(""), job("", annotations={"windlass.dev/restart-mode": "gang"})
    assert [members(read(each), 1)[0].pod["spec"]["restartPolicy"] for each in (kept, gang)] == ["OnFailure", "Never"]


def test_an_elastic_gang_gets_its_present_size():
    elastic = job("{elasticPolicy: {minReplicas: 1, maxReplicas: 4}, nprocPerNode: '2'}")
    elastic["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 4
    made = members(read(elastic), 1, {"worker": 3})
    variables = {each["name"]: each["value"] for each in made[0].pod["spec"]["containers"][0]["env"]}
    assert (len(made), variables["PET_NNODES"]) == (3, "1:4")
    assert len(dependent_objects(read(elastic), sizes={"worker": 3})) == 3
    fixed = job("runPolicy: {schedulingPolicy: {minAvailable: 2}}")
    fixed["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 4
    variables = members(read(fixed), 1, {"worker": 2})[0].pod["spec"]["containers"][0]["env"]
    assert {"name": "PET_NNODES", "value": "2"} in variables


def test_a_gang_with_fewer_pods_than_its_minimum_waits_for_more():
    short = job("runPolicy: {schedulingPolicy: {minAvailable: 3}}")
    assert read(short).job.hold.startswith("schedulingPolicy.minAvailable is 3, and the job has 1 pod: ")
    short["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 3
    assert read(short).job.hold == ""


@pytest.mark.parametrize("policy", [{"restartMode": "gang"}, {}])
def test_gang_restart_is_requested_in_the_policy_or_an_annotation(policy):
    manifest = job("", annotations={} if policy else {"windlass.dev/restart-mode": "gang"})
    manifest["spec"]["runPolicy"] = policy
    assert read(manifest).run_policy.gang_restart


@pytest.mark.parametrize(
    ("manager", "ours"),
    [(None, True), ("kubeflow.org/training-operator", True), ("kueue.x-k8s.io/multikueue", False)],
)
def test_a_job_may_belong_to_another_controller(manager, ours):
    parsed = read(job(f"runPolicy: {{managedBy: {manager or 'null'}}}"))
    assert is_ours(parsed.run_policy) is ours


def test_an_installation_configures_the_waiting_container():
    worker = members(read(DIGITS, Settings(waiter_image="mirror/busybox:1", waiter_tries=7)), 1)[1]
    waiter = worker.pod["spec"]["initContainers"][1]
    assert waiter["image"] == "mirror/busybox:1"
    assert "$(seq 7)" in waiter["command"][2]


def test_the_container_that_waits_for_the_master_has_requests():
    roles = {role.name: role.resources for role in read(DIGITS).job.roles}
    assert roles == {"master": {}, "worker": {"cpu": 50, "memory": 10 * 2**20}}


FAULTS = [
    ("nprocPerNode: many", "spec.nprocPerNode: expects a number, auto, cpu, gpu or xpu"),
    ("nprocPerNode: 4", "spec.nprocPerNode: expects a text, not 4; put it in quotes"),
    ("pytorchReplicaSpecs: {}", "spec.pytorchReplicaSpecs: expects Master and Worker, one of them at least"),
    (
        "pytorchReplicaSpecs: {Wroker: {}}",
        "spec.pytorchReplicaSpecs.Wroker: 'Wroker' is no replica type of this kind; did you mean 'Worker'?",
    ),
    (
        "pytorchReplicaSpecs: {Master: {replicas: 2}}",
        "spec.pytorchReplicaSpecs.Master.replicas: must be 1: a job has one Master",
    ),
    (
        "pytorchReplicaSpecs: {Worker: {template: {spec: {containers: [{name: main, image: a}]}}}}",
        (
            "spec.pytorchReplicaSpecs.Worker.template.spec.containers: "
            "no container is called 'pytorch'; rename the one that trains to 'pytorch'"
        ),
    ),
    (
        "pytorchReplicaSpecs: {Worker: {template: {spec: {containers: [{name: pytorch}]}}}}",
        "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].image: expects the container's image",
    ),
    (
        "pytorchReplicaSpecs: {Worker: {template: {spec: {containers: [null]}}}}",
        "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0]: is empty; remove it from the list",
    ),
    (
        "runPolicy: {backoffLimit: -1}",
        "spec.runPolicy.backoffLimit: expects a whole number from 0 to 2147483647, not -1",
    ),
    ("runPolicy: {cleanPodPolicy: Some}", "spec.runPolicy.cleanPodPolicy: expects None or Running or All, not 'Some'"),
    (
        "elasticPolicy: {minReplicas: 3, maxReplicas: 2}",
        "spec.elasticPolicy.minReplicas: must be at most maxReplicas, 2",
    ),
    (
        "{nprocPerNode: auto, elasticPolicy: {nProcPerNode: 2}}",
        "spec.elasticPolicy.nProcPerNode: says the same as nprocPerNode; keep that one",
    ),
]


@pytest.mark.parametrize(("text", "message"), FAULTS)
def test_a_fault_names_its_field_and_the_fix(text, message):
    found = read(job(text))
    assert isinstance(found, Fault)
    assert str(found) == message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, "metadata.name: expects the job's name"),
        ("Digits", "metadata.name: expects small letters, digits and dashes, a letter first: services are named by it"),
        (
            "d" * 60,
            f"metadata.name: is 6 characters too long: {'d' * 60}-worker-0 must be a DNS label of 63",
        ),
    ],
)
def test_a_name_must_be_valid_for_services(name, message):
    assert str(read(job("", name=name))) == message


def test_a_mistyped_kind_gets_a_suggestion():
    fault = read({"apiVersion": "kubeflow.org/v1", "kind": "PytorchJob"})
    assert str(fault) == "kind: 'PytorchJob' is no kind of job that is known here; did you mean 'PyTorchJob'?"
    wrong = read({"apiVersion": "kubeflow.org/v2", "kind": "PyTorchJob"})
    assert str(wrong) == "apiVersion: expects kubeflow.org/v1 for a PyTorchJob"


def test_fields_without_effect_are_reported():
    manifest = job("")
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    template = manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    template |= {"topologySpreadConstraints": spread, "restartPolicy": "Always"}
    manifest["spec"]["runPolicy"] = {"schedulingPolicy": {"scheduleTimeoutSeconds": 5}}
    assert read(manifest).warnings == (
        "schedulingPolicy: scheduleTimeoutSeconds has no effect",
        "Worker: topologySpreadConstraints is ignored by the scheduler",
        "Worker: the template's restartPolicy gives way to the one beside its replicas",
    )
