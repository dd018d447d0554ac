"""Rules find a fault also in its other forms; `examples/broken` has one form of each."""

import json

import pytest
import yaml

from windlass.diagnose.lint.engine import lint_texts
from windlass.jobs.syntax.text import Text


def pod(spec=None, **container):
    parts = {"name": "a", "image": "train:1", **container}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [parts], **(spec or {})},
    }


def env(**values):
    return pod(env=[{"name": name, "value": value} for name, value in values.items()])


def job(spec=None, pods=None, **container):
    template = {
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "a", "image": "train:1", **container}],
            **(pods or {}),
        }
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a"},
        "spec": {**(spec or {}), "template": template},
    }


def gang(replicas=2, pods=None, **container):
    template = {"spec": {"containers": [{"name": "pytorch", "image": "train:1", **container}], **(pods or {})}}
    roles = {"Worker": {"replicas": replicas, "template": template}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "a"},
        "spec": {"pytorchReplicaSpecs": roles},
    }


def job_set(parallelism=4, **container):
    work = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "train:1", **container}]}
    spec = {"parallelism": parallelism, "completions": parallelism, "template": {"spec": work}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "a"},
        "spec": {"replicatedJobs": [{"name": "b", "replicas": 1, "template": {"spec": spec}}]},
    }


def own_job(**spec):
    return {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "a"},
        "spec": {"command": "python a.py", "image": "train:1", **spec},
    }


def variable(name, value):
    return [{"name": name, "value": value}]


def limits(**amounts):
    return {
        "resources": {"limits": {name.replace("__", "/").replace("_", "."): each for name, each in amounts.items()}}
    }


def tolerating(**fields):
    return pod({"tolerations": [fields]})


def queue_of_volcano(weight):
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "a"},
        "spec": {"weight": weight},
    }


def pipeline(**accelerator):
    executor = {"container": {"image": "a", "resources": {"accelerator": accelerator}}}
    return {"components": {}, "root": {}, "schemaVersion": "2.1.0", "deploymentSpec": {"executors": {"a": executor}}}


def sharing(way="timeSlicing", **resource):
    return {"version": "v1", "sharing": {way: {"resources": [{"name": "nvidia.com/gpu", **resource}]}}}


INDEXED = {"completionMode": "Indexed", "completions": 4, "parallelism": 4}
SHM = {"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]}
EFA = limits(vpc_amazonaws_com__efa=1)
LAUNCH = ["python", "-m", "torch.distributed.launch", "--nproc_per_node=8", "train.py"]
LOCAL = variable("MASTER_ADDR", "localhost")
FORMS = [
    ("restart-policy-unknown", job(pods={"restartPolicy": "never"})),
    ("restart-policy-unknown", pod({"restartPolicy": "Sometimes"})),
    ("containers-empty", pod({"containers": None})),
    ("containers-empty", job(pods={"containers": []})),
    ("api-version-missing", {"kind": "PyTorchJob", "metadata": {"name": "a"}, "spec": {}}),
    ("torchrun-nodes-missing", job_set(command=LAUNCH, env=LOCAL)),
    ("torchrun-nodes-missing", job(INDEXED, command=LAUNCH, env=variable("MASTER_ADDR", "a-0.a"))),
    ("torchrun-address-of-itself", job_set(command=["python", "train.py"], env=LOCAL)),
    ("torchrun-address-of-itself", job_set(command=["torchrun", "--nnodes=4", "train.py"], env=LOCAL)),
    ("socket-interface-local", job_set(env=variable("NCCL_SOCKET_IFNAME", "lo"))),
    ("socket-interface-local", own_job(nodes=2, env={"NCCL_SOCKET_IFNAME": "lo"})),
    ("socket-interface-local", own_job(roles={"a": {"replicas": 2, "env": {"GLOO_SOCKET_IFNAME": "lo"}}})),
    (
        "socket-interface-local",
        job(INDEXED, command=["torchrun", "--nnodes=4", "a.py"], env=variable("NCCL_SOCKET_IFNAME", "=lo")),
    ),
    (
        "socket-interface-local",
        job(INDEXED, {"subdomain": "a"}, command=["python", "a.py"], env=variable("NCCL_SOCKET_IFNAME", "lo")),
    ),
    ("socket-interface-local", job(INDEXED, env=[*variable("NCCL_SOCKET_IFNAME", "lo"), *variable("WORLD_SIZE", "4")])),
    ("socket-interface-local", gang(command=["sh", "-c", "export NCCL_SOCKET_IFNAME=lo; torchrun a.py"])),
    ("torchrun-rendezvous-missing", job({"parallelism": 4}, command=["torchrun", "--nnodes=4", "a.py"])),
    ("torchrun-rendezvous-missing", job_set(command=["torchrun", "--nnodes=4", "--node-rank=$(I)", "a.py"])),
    ("torchrun-rendezvous-missing", job(INDEXED, command=["sh", "-c", "torchrun --nnodes 4 --rdzv-backend=c10d a.py"])),
    ("toleration-malformed", tolerating(operator="Equal", value="a")),
    ("toleration-malformed", tolerating(key="a", operator="Is")),
    ("toleration-malformed", tolerating(key="a", operator="Exists", effect="NoSchedule", tolerationSeconds=3)),
    ("toleration-malformed", tolerating(key="a", operator="Exists", value="b")),
    ("volcano-queue-weight", queue_of_volcano("two")),
    ("volcano-queue-weight", queue_of_volcano(0)),
    ("pipeline-accelerator-incomplete", pipeline(count="1")),
    ("pipeline-accelerator-incomplete", pipeline(type="nvidia.com/gpu", resourceCount="0")),
    ("pipeline-accelerator-type", pipeline(type="NVIDIA_TESLA_T4", count="1")),
    ("sharing-replicas", sharing()),
    ("sharing-replicas", sharing("mps", replicas="two")),
    ("sharing-field-ignored", sharing(replicas=2, rename="gpu.small")),
    ("sharing-field-ignored", {**sharing(replicas=2), "resources": {"gpus": [{"pattern": "*", "name": "a"}]}}),
    ("device-plugin-flag-value", {"version": "v1", "flags": {"plugin": {"deviceIDStrategy": "name"}}}),
    ("job-restart-policy", job(pods={"restartPolicy": None})),
    (
        "checkpoint-on-empty-dir",
        pod({"volumes": [{"name": "a", "emptyDir": {}}]}, volumeMounts=[{"name": "a", "mountPath": "/ckpt"}]),
    ),
    ("torchrun-rank-constant", job(INDEXED, command=["torchrun", "--nnodes=4", "--node-rank=0", "train.py"])),
    ("torchrun-address-of-itself", job(INDEXED, command=["torchrun", "--nnodes=4", "--master-addr=127.0.0.1", "a.py"])),
    ("torchrun-nodes-differ", job(INDEXED, command=["torchrun", "--nnodes=2", "train.py"])),
    ("torchrun-standalone-on-several-nodes", gang(3, command=["torchrun", "--standalone", "train.py"])),
    ("ranks-not-parallel", job({**INDEXED, "parallelism": 2}, command=["torchrun", "--nnodes=4", "train.py"])),
    ("world-size-differs", job(INDEXED, env=[{"name": "WORLD_SIZE", "value": "5"}])),
    (
        "mesh-sidecar-injected",
        job()
        | {
            "spec": {
                "template": {**job()["spec"]["template"], "metadata": {"labels": {"sidecar.istio.io/inject": "true"}}}
            }
        },
    ),
    ("mig-in-gang", gang(1, resources={"limits": {"nvidia.com/mig-1g.10gb": 2}})),
    ("efa-variable-obsolete", pod(env=[{"name": "NCCL_PROTO", "value": "simple"}], **EFA)),
    ("efa-variable-obsolete", env(FI_EFA_USE_DEVICE_RDMA="1")),
    ("grace-period-below-pre-stop", pod(lifecycle={"preStop": {"sleep": {"seconds": 30}}})),
    (
        "grace-period-behind-shell",
        gang(pods={"terminationGracePeriodSeconds": 90}, command=["sh", "-c", "cd /a && python a.py"]),
    ),
    (
        "grace-period-behind-shell",
        gang(pods={"terminationGracePeriodSeconds": 90}, command=["bash", "-c", "python a.py; echo done"]),
    ),
    ("shared-memory-missing", pod(command=["python", "a.py", "--num-workers=8"], **limits(nvidia_com__gpu=1))),
    (
        "shared-memory-above-limit",
        pod(SHM, volumeMounts=[{"name": "shm", "mountPath": "/dev/shm"}], **limits(memory="1Gi")),
    ),
    ("container-name-malformed", pod(name="")),
    ("container-name-malformed", pod(name="A_b")),
    ("nccl-ib-disabled", pod(env=[{"name": "NCCL_IB_DISABLE", "value": "1"}], **limits(nvidia_com__rdma_x=1))),
    ("gpu-request-without-limit", pod(resources={"requests": {"hugepages-2Mi": "1Gi", "cpu": 1}})),
    (
        "gpu-request-differs",
        pod(resources={"requests": {"hugepages-2Mi": "1Gi", "cpu": 1}, "limits": {"hugepages-2Mi": "2Gi"}}),
    ),
    (
        "devices-exceed-instance",
        pod(
            {"nodeSelector": {"node.kubernetes.io/instance-type": "p5.48xlarge"}},
            **limits(vpc_amazonaws_com__efa=33, nvidia_com__gpu=8),
        ),
    ),
    ("name-malformed", job() | {"kind": "CronJob", "metadata": {"name": "a" * 53}}),
    ("name-malformed", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a.b"}, "spec": {}}),
    ("name-malformed", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a" * 254}}),
    ("python-call-obsolete", pod(command=["python", "-c", "import torch\nm = torch.nn.DataParallel(m)"])),
    (
        "python-call-obsolete",
        {
            "components": {},
            "root": {},
            "schemaVersion": "2.1.0",
            "deploymentSpec": {"executors": {"a": {"container": {"command": ["import kfp\nx.set_gpu_limit(1)"]}}}},
        },
    ),
    ("gpu-resource-misspelt", pod(**limits(aws_amazon_com__efa=1))),
    ("debug-variable-left", env(TORCH_DISTRIBUTED_DEBUG="detail")),
    ("nccl-net-of-efa", env(NCCL_NET="EFA")),
    (
        "invalid-windlass-object",
        {"apiVersion": "windlass.dev/v1alpha1", "kind": "Reservation", "metadata": {"name": "a"}, "spec": {"node": []}},
    ),
    (
        "invalid-windlass-object",
        {
            "apiVersion": "windlass.dev/v1alpha1",
            "kind": "SchedulingPolicy",
            "metadata": {"name": "a"},
            "spec": {"order": "fast"},
        },
    ),
]


@pytest.mark.parametrize(("rule", "document"), FORMS, ids=lambda value: value if isinstance(value, str) else "")
def test_another_form_of_a_fault_is_found(rule, document):
    assert rule in {each.rule for each in lint_texts([Text("a.yaml", json.dumps(document))])}


RIGHT = [
    job_set(command=["torchrun", "--nnodes=4", "--rdzv-endpoint=a-0.a:1", "train.py"], env=LOCAL),
    job_set(command=[*LAUNCH, "$(ARGS)"], env=LOCAL),
    job_set(command=LAUNCH, env=[*LOCAL, *variable("PET_NNODES", "4")]),
    job(INDEXED, command=LAUNCH, env=LOCAL),  # four trainings, each of one pod
    job(INDEXED, env=variable("NCCL_SOCKET_IFNAME", "lo")),
    own_job(env={"NCCL_SOCKET_IFNAME": "lo"}),
    gang(4, command=["torchrun", "--nnodes=4", "a.py"]),  # the operator sets PET_MASTER_ADDR
    job(INDEXED, command=["torchrun", "--nnodes=4", "a.py"], env=variable("PET_RDZV_ENDPOINT", "a-0.a:29500")),
    job(INDEXED, command=["torchrun", "--nnodes=4", "a.py"], envFrom=[{"configMapRef": {"name": "rendezvous"}}]),
    job(INDEXED, command=["sh", "-c", "torchrun --nnodes=4 $RENDEZVOUS a.py"]),
    job(INDEXED, command=["sh", "-c", "torchrun --nnodes=2 --node-rank=0 a.py & torchrun --nnodes=2 a.py"]),
    job(INDEXED, command=["torchrun", "--nnodes=4", "--rdzv-backend=c10d", "--rdzv-endpoint=a-0.a:1", "a.py"]),
]


@pytest.mark.parametrize("document", RIGHT)
def test_a_rendezvous_that_is_right_raises_nothing(document):
    found = {each.rule for each in lint_texts([Text("a.yaml", json.dumps(document))])}
    ids = "torchrun-nodes-missing torchrun-address-of-itself socket-interface-local torchrun-rendezvous-missing"
    assert found & set(ids.split()) == set()


SCRIPT = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4\n#SBATCH {}\nsrun {} --nnodes=2 {} train.py\n"


@pytest.mark.parametrize(
    ("tasks", "program", "processes", "is_twice"),
    [
        ("--ntasks=8", "torchrun", "--nproc_per_node=4", True),
        ("-n 8", "python -m torch.distributed.launch", "--nproc_per_node=4", True),
        ("--ntasks-per-node=4", "python -m torch.distributed.run", "--nproc-per-node=$SLURM_GPUS_ON_NODE", True),
        ("--ntasks-per-node=4", "torchrun", "--nproc_per_node=$SLURM_NTASKS_PER_NODE", True),
        ("--ntasks=2", "torchrun", "--nproc_per_node=4", False),
        ("--ntasks=8", "--ntasks=2 torchrun", "--nproc_per_node=4", False),
        ("--ntasks=8", "torchrun", "--nproc_per_node=1", False),
        ("--ntasks-per-node=1", "torchrun", "--nproc_per_node=gpu", False),
    ],
)
def test_ranks_of_a_batch_script_that_are_started_twice(tasks, program, processes, is_twice):
    found = lint_texts([Text("a.sbatch", SCRIPT.format(tasks, program, processes))])
    assert ("sbatch-torchrun-per-gpu" in {each.rule for each in found}) == is_twice


NODES = "#!/bin/bash\n#SBATCH --nodes=2\n"


@pytest.mark.parametrize(
    ("command", "rules"),
    [
        ("srun torchrun --standalone --nproc-per-node 8 train.py", {"sbatch-torchrun-standalone"}),
        ("srun python -m torch.distributed.run --standalone $SCRIPT", {"sbatch-torchrun-standalone"}),
        ("srun bash -c 'torchrun --standalone train.py'", {"sbatch-torchrun-standalone"}),
        ("srun --nodes=1 --ntasks=1 torchrun --standalone sweep.py &", set()),
        ('srun -w "$node" torchrun --standalone sweep.py &', set()),
        ("srun torchrun --nnodes $SLURM_NNODES train.py", {"sbatch-rendezvous-missing"}),
        ("srun torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_id=1 train.py", {"sbatch-rendezvous-missing"}),
        ("srun torchrun --nnodes=2 --rdzv_backend=c10d --master_addr=$HEAD train.py", {"sbatch-rendezvous-missing"}),
        ("srun torchrun --nnodes=2 --rdzv_endpoint=localhost:29500 --rdzv_backend=c10d", {"sbatch-address-of-itself"}),
        ("srun torchrun --master_addr=$HEAD train.py", {"sbatch-nodes-missing"}),
        ("srun torchrun --nproc_per_node=2 evaluate.py", set()),
        ("srun torchrun $ARGS --master_addr=$HEAD train.py", set()),
        ("srun torchrun ${ARGS[@]} --nnodes=2 train.py", set()),
        ("srun torchrun --nnodes=2 $RENDEZVOUS train.py", set()),
        ("PET_RDZV_ENDPOINT=$HEAD srun torchrun --nnodes=2 train.py", set()),
        ("srun torchrun --nnodes=2 --rdzv_endpoint=$HEAD train.py", {"sbatch-node-rank-equal"}),
        ("srun torchrun --nnodes=2 --node_rank=$SLURM_NODEID --master_addr=$HEAD a.py", {"sbatch-node-rank-equal"}),
        ("srun sh -c 'torchrun --nnodes=2 --node_rank=$SLURM_NODEID --master_addr=$HEAD a.py'", set()),
        ('srun sh -c "torchrun --nnodes=2 --node_rank=\\$SLURM_NODEID --master_addr=$HEAD a.py"', set()),
        ("srun torchrun --nnodes=2 --node_rank=$rank --master_addr=$HEAD train.py", set()),
        ("srun torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29500 train.py", set()),
        ("srun torchrun --nnodes=4 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29500 a.py", {"sbatch-nodes-differ"}),
        ("srun torchrun --nnodes=4 train.py", {"sbatch-nodes-differ", "sbatch-rendezvous-missing"}),
        ("srun --nodes=4 torchrun --nnodes=4 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29500 a.py", set()),
        ("srun --ntasks=3 torchrun --nnodes=3 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29500 a.py", set()),
        ("srun torchrun --nnodes=1:4 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29500 train.py", set()),
    ],
)
def test_a_batch_script_whose_nodes_do_not_meet(command, rules):
    assert {each.rule for each in lint_texts([Text("a.sbatch", f"{NODES}{command}\n")])} == rules
    of_one_node = lint_texts([Text("a.sbatch", f"#!/bin/bash\n#SBATCH --nodes=1\n{command}\n")])
    assert of_one_node == []


def test_a_kustomization_and_a_chart_need_no_kind():
    texts = ["apiVersion: kustomize.config.k8s.io/v1beta1\nresources: [a.yaml]\n", "apiVersion: v2\nname: chart\n"]
    assert [each for text in texts for each in lint_texts([Text("a.yaml", text)])] == []


@pytest.mark.parametrize(
    "document",
    [
        own_job() | {"apiVersion": "sagemaker.services.k8s.aws/v1alpha1", "spec": {"algorithmSpecification": {}}},
        gang() | {"apiVersion": "training.example.com/v1", "kind": "TrainJob", "spec": {"model": "llama"}},
        {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"template": 1}},
        {"apiVersion": "example.com/v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"a": "no base64"}},
    ],
    ids=lambda document: document["apiVersion"],
)
def test_a_kind_of_another_group_is_not_taken_for_the_known_one(document):
    assert lint_texts([Text("a.yaml", json.dumps(document))]) == []


def test_a_misspelt_group_is_found():
    found = lint_texts([Text("a.yaml", json.dumps(gang() | {"apiVersion": "kubflow.org/v1"}))])
    assert [each.rule for each in found] == ["invalid-job"]


def test_the_faults_of_a_job_are_reported_together():
    [*found] = lint_texts([Text("a.yaml", json.dumps(own_job(command=3, nodes="x", gpus=-1, replicas=2)))])
    assert sorted(each.message.partition(":")[0] for each in found) == [
        "spec.command",
        "spec.gpus",
        "spec.nodes",
        "spec.replicas",
    ]
    assert {each.rule for each in found} == {"invalid-job", "unknown-field"}


def test_the_faults_of_all_replica_specs_are_reported_together():
    document = gang(replicas=-1)
    document["spec"]["pytorchReplicaSpecs"]["Master"] = {"replicas": 2, "template": {"spec": {"containers": []}}}
    found = [each for each in lint_texts([Text("a.yaml", json.dumps(document))]) if each.rule == "invalid-job"]
    assert [each.message.partition(":")[0] for each in found] == [
        "spec.pytorchReplicaSpecs.Worker.replicas",
        "spec.pytorchReplicaSpecs.Master.replicas",
        "spec.pytorchReplicaSpecs.Master.template.spec.containers",
    ]


def test_the_faults_of_a_replica_spec_and_its_template_are_reported_together():
    document = gang(ports=[{"containerPort": 0}], image=None, pods={"schedulerName": 1})
    worker = document["spec"]["pytorchReplicaSpecs"]["Worker"]
    worker |= {"replicas": -1, "restartPolicy": "Sometimes"}
    worker["template"]["metadata"] = {"labels": {"a": 1}}
    assert invalid_fields(document) == [
        "spec.pytorchReplicaSpecs.Worker.replicas",
        "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].image",
        "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].ports[0].containerPort",
        "spec.pytorchReplicaSpecs.Worker.template.spec.schedulerName",
        "spec.pytorchReplicaSpecs.Worker.restartPolicy",
    ]


def invalid_fields(document):
    """The fields that `invalid-job` names, in the order of the file."""
    found = lint_texts([Text("a.yaml", yaml.safe_dump(document, sort_keys=False))])
    return [each.message.partition(":")[0] for each in found if each.rule == "invalid-job"]


RUN_POLICY = {
    "cleanPodPolicy": "Alle",
    "ttlSecondsAfterFinished": -1,
    "backoffLimit": "three",
    "suspend": "no",
    "managedBy": "example.com/other",
    "schedulingPolicy": {"minAvailable": -2, "queue": 3, "scheduleTimeoutSeconds": "10s"},
}
RUN_POLICY_FIELDS = [
    "spec.runPolicy.cleanPodPolicy",
    "spec.runPolicy.ttlSecondsAfterFinished",
    "spec.runPolicy.backoffLimit",
    "spec.runPolicy.suspend",
    "spec.runPolicy.managedBy",
    "spec.runPolicy.schedulingPolicy.minAvailable",
    "spec.runPolicy.schedulingPolicy.queue",
    "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
]


def test_the_faults_of_a_run_policy_are_reported_with_those_of_the_rest_of_the_job():
    document = gang(replicas=-1) | {"metadata": {"name": "No_Name"}}
    document["spec"] |= {
        "runPolicy": RUN_POLICY,
        "nprocPerNode": "many",
        "elasticPolicy": {"minReplicas": 0, "maxReplicas": "all", "rdzvPort": 70_000, "maxRestarts": -1},
    }
    assert invalid_fields(document) == [
        "spec.pytorchReplicaSpecs.Worker.replicas",
        *RUN_POLICY_FIELDS,
        "spec.nprocPerNode",
        "spec.elasticPolicy.minReplicas",
        "spec.elasticPolicy.maxReplicas",
        "spec.elasticPolicy.rdzvPort",
        "spec.elasticPolicy.maxRestarts",
    ]


@pytest.mark.parametrize(
    ("version", "kind", "specs", "container", "fields", "faulty"),
    [
        ("v1", "TFJob", "tfReplicaSpecs", "tensorflow", {"successPolicy": "Some", "enableDynamicWorker": 1}, 2),
        ("v1", "XGBoostJob", "xgbReplicaSpecs", "xgboost", {}, 0),
        ("v1", "JAXJob", "jaxReplicaSpecs", "jax", {}, 0),
        ("v1", "PaddleJob", "paddleReplicaSpecs", "paddle", {"elasticPolicy": {"minReplicas": "x"}}, 1),
        ("v1", "MPIJob", "mpiReplicaSpecs", "mpi", {"cleanPodPolicy": "Alle", "slotsPerWorker": -1}, 2),
        ("v2beta1", "MPIJob", "mpiReplicaSpecs", "mpi", {"slotsPerWorker": -1, "mpiImplementation": "LAM"}, 2),
    ],
)
def test_every_kind_reports_all_faults_of_its_policies(version, kind, specs, container, fields, faulty):
    template = {"spec": {"containers": [{"name": container, "image": "train:1"}]}}
    lead = {"MPIJob": "Launcher", "XGBoostJob": "Master"}.get(kind, "Worker")
    spec = {"runPolicy": RUN_POLICY, **fields, specs: {lead: {"replicas": 1, "template": template}}}
    document = {"apiVersion": f"kubeflow.org/{version}", "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    found = invalid_fields(document)
    assert found[:8] == RUN_POLICY_FIELDS
    assert len(found) == 8 + faulty


def test_the_faults_of_a_train_job_are_reported_though_its_runtime_is_unknown():
    spec = {"runtimeRef": {"name": "ours"}, "suspend": "no", "managedBy": "me", "trainer": {"numNodes": -1}}
    document = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    assert invalid_fields(document) == ["spec.suspend", "spec.managedBy", "spec.trainer.numNodes"]


def test_a_run_policy_that_is_no_mapping_is_one_fault():
    document = gang()
    document["spec"]["runPolicy"] = {"schedulingPolicy": "none", "suspend": 3}
    assert invalid_fields(document) == ["spec.runPolicy.schedulingPolicy", "spec.runPolicy.suspend"]


@pytest.mark.parametrize(
    ("devices", "fits"),
    [
        ({"1g.10gb": 7}, True),
        ({"3g.20gb": 1, "4g.20gb": 1}, True),
        ({"3g.20gb": 1, "2g.10gb": 2}, True),
        ({"3g.20gb": 2, "1g.5gb": 1}, False),  # each of 3g takes half of the memory
        ({"2g.10gb": 3, "1g.5gb": 1}, True),
        ({"4g.20gb": 1, "2g.10gb": 1, "1g.5gb": 1}, True),
    ],
)
def test_a_mig_layout_needs_a_place_for_each_device(devices, fits):
    layout = {"devices": "all", "mig-enabled": True, "mig-devices": devices}
    found = lint_texts([Text("a.yaml", json.dumps({"version": "v1", "mig-configs": {"a": [layout]}}))])
    assert [each.rule for each in found] == ([] if fits else ["mig-layout-impossible"])


def test_a_call_within_a_block_has_the_line_of_the_call():
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    text = f"{head}data:\n  a.py: |\n    import torch\n    nn.DataParallel(m)\n"
    [finding] = lint_texts([Text("a.yaml", text)])
    assert (finding.place.line, finding.place.column) == (7, 5)


@pytest.mark.parametrize(
    "option",
    [
        "--mail-type=BEGIN\n#SBATCH --mail-type=END",  # values of the option add up
        "--container-image=a.sqsh",  # of the plugin Pyxis
        "--sharedtmp=1",  # of a plugin of some cluster
    ],
)
def test_options_of_batch_scripts_that_are_right(option):
    assert lint_texts([Text("a.sbatch", f"#!/bin/bash\n#SBATCH {option}\npython train.py\n")]) == []
