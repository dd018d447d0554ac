"""A TrainJob of the trainer v2, and the objects that it and its runtime become."""

import copy

import pytest
import yaml

from windlass.jobs.kubernetes.kinds.registry import dependent_objects, members, read
from windlass.jobs.kubernetes.kinds.run_policy import is_ours
from windlass.jobs.kubernetes.manifest_reader import Fault
from windlass.jobs.kubernetes.manifests.manifest_file import objects_of
from windlass.jobs.kubernetes.settings import Settings
from windlass.jobs.kubernetes.train_runtimes import built_in
from windlass.jobs.syntax.text import Text

DIGITS = yaml.safe_load("""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: digits, namespace: team}
spec:
  runtimeRef: {name: torch-distributed}
  managedBy: trainer.kubeflow.org/trainjob-controller
  trainer:
    image: digits:1
    command: [torchrun, train.py]
    numNodes: 2
    env: [{name: EPOCHS, value: "3"}]
    resourcesPerNode: {requests: {cpu: 4}}
""")


def job(runtime="torch-distributed", trainer=None, **spec):
    manifest = copy.deepcopy(DIGITS)
    manifest["spec"]["runtimeRef"]["name"] = runtime
    manifest["spec"]["trainer"].update(trainer or {})
    manifest["spec"].update(spec)
    return manifest


def variables_of(member, container="node"):
    (found,) = [each for each in member.pod["spec"]["containers"] if each["name"] == container]
    return {each["name"]: each.get("value") for each in found["env"]}


def test_the_pods_of_a_trainjob_are_those_of_its_jobset():
    first, second = members(read(DIGITS), generation=2)
    assert (first.name, second.name, second.role, second.index) == ("digits-node-0-0", "digits-node-0-1", "node", 1)
    spec = second.pod["spec"]
    assert (spec["hostname"], spec["subdomain"], spec["restartPolicy"]) == ("digits-node-0-1", "digits", "Never")
    about = second.pod["metadata"]
    assert about["labels"] == {
        "jobset.sigs.k8s.io/jobset-name": "digits",
        "jobset.sigs.k8s.io/replicatedjob-name": "node",
        "jobset.sigs.k8s.io/job-index": "0",
        "batch.kubernetes.io/job-completion-index": "1",
        "windlass.dev/generation": "2",
    }
    assert about["annotations"] == {"batch.kubernetes.io/job-completion-index": "1"}
    (container,) = spec["containers"]
    assert (container["image"], container["command"]) == ("digits:1", ["torchrun", "train.py"])
    assert variables_of(second) == {
        "EPOCHS": "3",
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "4",
        "PET_NODE_RANK": "1",
        "PET_MASTER_ADDR": "digits-node-0-0.digits",
        "PET_MASTER_PORT": "29500",
        "JOB_COMPLETION_INDEX": "1",
    }


def test_the_gang_is_restarted_whole_by_the_core():
    parsed = read(DIGITS)
    assert (parsed.run_policy.gang_restart, parsed.job.restart.user_limit, is_ours(parsed.run_policy)) == (
        True,
        6,
        True,
    )
    (role,) = parsed.job.roles
    assert (role.replicas, role.procs, role.resources) == (2, 4, {"cpu": 4000})
    (service,) = dependent_objects(parsed)
    assert (service["metadata"]["name"], service["spec"]["selector"]) == (
        "digits",
        {"jobset.sigs.k8s.io/jobset-name": "digits"},
    )
    assert dependent_objects(read(job(suspend=True))) == []


def test_a_label_names_the_queue_of_a_kind_that_has_no_field_for_it():
    manifest = copy.deepcopy(DIGITS)
    manifest["metadata"]["labels"] = {"windlass.dev/queue": "research"}
    parsed = read(manifest)
    assert (parsed.run_policy.queue, parsed.job.queue) == ("research", "research")


def test_torchrun_counts_its_ranks_itself_with_gpus():
    gpus = job(trainer={"resourcesPerNode": {"limits": {"nvidia.com/gpu": 2}}})
    assert variables_of(members(read(gpus), 1)[0])["PET_NPROC_PER_NODE"] == "auto"
    assert read(gpus).job.roles[0].procs == 2
    assert variables_of(members(read(job(trainer={"numProcPerNode": 3})), 1)[0])["PET_NPROC_PER_NODE"] == "3"


def test_other_frameworks_get_their_own_variables():
    one = variables_of(members(read(job("jax-distributed")), 1)[1])
    assert (one["JAX_NUM_PROCESSES"], one["JAX_PROCESS_ID"]) == ("2", "1")
    assert one["JAX_COORDINATOR_ADDRESS"] == "digits-node-0-0.digits:29500"
    gpus = {"resourcesPerNode": {"limits": {"nvidia.com/gpu": 2}}}
    one = variables_of(members(read(job("xgboost-distributed", gpus)), 1)[1])
    assert (one["DMLC_TASK_ID"], one["DMLC_NUM_WORKER"], one["DMLC_TRACKER_URI"]) == (
        "1",
        "4",
        "digits-node-0-0.digits",
    )


def test_an_mpi_trainjob_has_keys_a_hostfile_and_a_launcher_that_computes():
    parsed = read(job("deepspeed-distributed", {"numNodes": 3, "numProcPerNode": 2}))
    names = [member.name for member in members(parsed, 1)]
    assert names == ["digits-node-0-0", "digits-node-0-1", "digits-launcher-0-0"]
    _, secret, hosts = dependent_objects(parsed)
    assert (secret["metadata"]["name"], secret["type"]) == ("digits-mpi-ssh-auth", "kubernetes.io/ssh-auth")
    assert hosts["data"]["hostfile"] == (
        "digits-node-0-0.digits slots=2\ndigits-node-0-1.digits slots=2\ndigits-launcher-0-0.digits slots=2\n"
    )
    node, _, launcher = members(parsed, 1)
    assert variables_of(launcher)["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
    (container,) = launcher.pod["spec"]["containers"]
    assert container["command"] == ["torchrun", "train.py"]
    assert [each["mountPath"] for each in container["volumeMounts"]] == ["/home/mpiuser/.ssh", "/etc/mpi"]
    (container,) = node.pod["spec"]["containers"]
    assert container["command"] == ["/usr/sbin/sshd"]
    assert container["resources"] == {"requests": {"cpu": 4}}


RUNTIME = yaml.safe_load("""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: ours}
spec:
  mlPolicy: {numNodes: 3, torch: {}}
  template:
    spec:
      ttlSecondsAfterFinished: 60
      failurePolicy: {maxRestarts: 2}
      network: {subdomain: net}
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            backoffLimit: 1
            template:
              metadata: {labels: {team: vision}}
              spec:
                nodeSelector: {pool: train}
                containers:
                - {name: node, image: "ours:1", env: [{name: EPOCHS, value: "1"}, {name: MODE, value: fast}]}
                - {name: logs, image: "logs:1"}
""")


def ours(kind, namespace, name):
    return RUNTIME if (kind, namespace, name) == ("TrainingRuntime", "team", "ours") else None


def of_ours(**spec):
    manifest = job("ours", **spec)
    manifest["spec"]["runtimeRef"]["kind"] = "TrainingRuntime"
    return manifest


def test_a_runtime_of_the_cluster_is_looked_up():
    manifest = of_ours(trainer={"numNodes": None, "image": None})
    parsed = read(manifest, Settings(runtimes=ours))
    assert (parsed.run_policy.ttl_ms, parsed.job.restart.user_limit, parsed.pod_count) == (60_000, 3, 3)
    assert (parsed.run_policy.ttl_keeps_job, parsed.run_policy.clean_pod_policy) == (True, "Running")
    first = members(parsed, 1)[0].pod
    assert first["metadata"]["labels"]["team"] == "vision"
    assert [each["image"] for each in first["spec"]["containers"]] == ["ours:1", "logs:1"]
    variables = variables_of(members(parsed, 1)[0])
    assert (variables["EPOCHS"], variables["MODE"]) == ("3", "fast")  # the job's own takes the runtime's place
    assert variables["PET_MASTER_ADDR"] == "digits-node-0-0.net"
    assert variables_of(members(parsed, 1)[0], "logs") == {"JOB_COMPLETION_INDEX": "0"}


def test_patches_are_merged_over_the_runtime():
    patch = {"nodeSelector": {"pool": "big"}, "volumes": [{"name": "data"}]}
    template = {"spec": {"template": {"metadata": {"annotations": {"by": "kueue"}}, "spec": patch}}}
    spec = {"replicatedJobs": [{"name": "node", "template": template}]}
    patched = of_ours(
        runtimePatches=[{"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": {"template": {"spec": spec}}}]
    )
    parsed = read(patched, Settings(runtimes=ours))
    assert parsed.job.roles[0].node_selector == {"pool": "big"}
    pod = members(parsed, 1)[0].pod
    assert (pod["spec"]["volumes"], pod["metadata"]["annotations"]["by"]) == ([{"name": "data"}], "kueue")


def test_a_file_may_contain_the_runtime_beside_the_job():
    runtime = {**RUNTIME, "kind": "ClusterTrainingRuntime"}
    found = objects_of(Text("job.yaml", yaml.safe_dump_all([runtime, job("ours")]))).objects
    assert [each["kind"] for each in found] == ["ClusterTrainingRuntime", "Service", "Pod", "Pod"]


def waiting_for_a_missing_job():
    runtime = copy.deepcopy(RUNTIME)
    jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    jobs[0]["dependsOn"] = [{"name": "dataset-initializer", "status": "Complete"}]
    return runtime


@pytest.mark.parametrize(
    ("manifest", "runtime", "message"),
    [
        (job("nowhere"), None, "spec.runtimeRef.name: there is no ClusterTrainingRuntime 'nowhere'"),
        (job(""), None, "spec.runtimeRef.name: expects the name of a runtime, such as torch-distributed"),
        (
            job("ours"),
            waiting_for_a_missing_job(),
            "spec.runtimeRef.template.spec.replicatedJobs[0].dependsOn[0].name: 'dataset-initializer' is no job of the",
        ),
        (job(trainer={"numNodes": "two"}), None, "spec.trainer.numNodes: expects a whole number"),
        (job(trainer={"env": [{"name": "PET_NNODES"}]}), None, "spec.trainer.env[0].name: PET_NNODES is set for every"),
        (job(trainer={"env": [{"name": [1]}]}), None, "spec.trainer.env[0].name: expects a text, not a list"),
        (
            job(managedBy="other"),
            None,
            "spec.managedBy: expects windlass.dev/operator or trainer.kubeflow.org/trainjob",
        ),
    ],
)
def test_a_fault_is_one_sentence(manifest, runtime, message):
    fault = read(manifest, Settings(runtimes=lambda *named: runtime or built_in(*named)))
    assert isinstance(fault, Fault)
    assert str(fault).startswith(message)
