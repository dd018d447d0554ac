"""MPIJobs of both operators, and the objects that they become."""

import copy

import pytest
import yaml

from windlass.jobs.kubernetes.kinds.registry import dependent_objects, members, read
from windlass.jobs.kubernetes.settings import Settings

OLD = yaml.safe_load("""
apiVersion: kubeflow.org/v1
kind: MPIJob
metadata: {name: pi, namespace: team}
spec:
  slotsPerWorker: 2
  cleanPodPolicy: Running
  mpiReplicaSpecs:
    Launcher:
      template: {spec: {containers: [{name: mpi, image: "pi:1", command: [mpirun], args: ["-n", "4", pi]}]}}
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: mpi, image: "pi:1", resources: {limits: {cpu: 2}}}]}}
""")
NEW = {**OLD, "apiVersion": "kubeflow.org/v2beta1"}


def changed(manifest, **spec):
    return {**manifest, "spec": {**manifest["spec"], **spec}}


def named(objects):
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in objects}


def env(container):
    return {each["name"]: each["value"] for each in container["env"]}


def test_the_job_of_a_v2_launcher_ends_itself_at_the_deadline():
    limited = {"runPolicy": {"activeDeadlineSeconds": 60}}
    assert read(changed(OLD, **limited)).job.deadline == 60_000
    parsed = read(changed(NEW, **limited))
    launcher = named(dependent_objects(parsed))["Job/pi-launcher"]
    assert (parsed.job.deadline, launcher["spec"]["activeDeadlineSeconds"]) == (None, 60)


def test_the_time_to_live_of_a_v2_job_is_that_of_its_launcher():
    limited = {"runPolicy": {"ttlSecondsAfterFinished": 60}}
    assert read(changed(OLD, **limited)).job.ttl == 60_000
    parsed = read(changed(NEW, **limited))
    launcher = named(dependent_objects(parsed))["Job/pi-launcher"]
    assert (parsed.job.ttl, launcher["spec"]["ttlSecondsAfterFinished"]) == (None, 60)


def test_a_v2_job_has_one_worker_where_no_number_is_written():
    specs = copy.deepcopy(NEW["spec"]["mpiReplicaSpecs"])
    del specs["Worker"]["replicas"]
    assert len(members(read(changed(NEW, mpiReplicaSpecs=specs)), 1)) == 1
    specs["Worker"]["replicas"] = 0
    assert "must be at least 1" in read(changed(NEW, mpiReplicaSpecs=specs)).message


def test_v1_becomes_a_launcher_and_workers_that_wait_for_it():
    launcher, first, second = members(read(OLD), 3)
    assert [each.name for each in (launcher, first, second)] == ["pi-launcher", "pi-worker-0", "pi-worker-1"]
    assert second.pod == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "pi-worker-1",
            "namespace": "team",
            "labels": {
                "training.kubeflow.org/operator-name": "mpijob-controller",
                "training.kubeflow.org/job-name": "pi",
                "training.kubeflow.org/replica-type": "worker",
                "training.kubeflow.org/replica-index": "1",
                "windlass.dev/generation": "3",
            },
        },
        "spec": {
            "restartPolicy": "Never",
            "schedulerName": "windlass",
            "containers": [
                {
                    "name": "mpi",
                    "image": "pi:1",
                    "resources": {"limits": {"cpu": 2}},
                    "command": ["sleep"],
                    "args": ["365d"],
                    "volumeMounts": [{"name": "mpi-job-config", "mountPath": "/etc/mpi"}],
                }
            ],
            "volumes": [
                {
                    "name": "mpi-job-config",
                    "configMap": {
                        "name": "pi-config",
                        "items": [{"key": "kubexec.sh", "path": "kubexec.sh", "mode": 0o555}],
                    },
                }
            ],
        },
    }


def test_the_v1_launcher_finds_kubectl_and_the_hostfile():
    launcher = members(read(OLD), 1)[0].pod
    assert launcher["metadata"]["labels"]["training.kubeflow.org/job-role"] == "master"
    assert launcher["spec"]["serviceAccountName"] == "pi-launcher"
    (kubectl,) = launcher["spec"]["initContainers"]
    assert kubectl["volumeMounts"][0] == {"name": "mpi-job-kubectl", "mountPath": "/opt/kube"}
    (container,) = launcher["spec"]["containers"]
    assert env(container) == {
        "OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "NVIDIA_VISIBLE_DEVICES": "",
        "NVIDIA_DRIVER_CAPABILITIES": "",
        "I_MPI_HYDRA_BOOTSTRAP": "rsh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/etc/mpi/kubexec.sh",
    }
    assert [each["name"] for each in launcher["spec"]["volumes"]] == ["mpi-job-kubectl", "mpi-job-config"]


def test_dependent_objects_of_v1_let_the_launcher_into_its_own_workers():
    found = named(dependent_objects(read(OLD), running=["pi-worker-1"]))
    assert list(found) == [
        "ConfigMap/pi-config",
        "ServiceAccount/pi-launcher",
        "Role/pi-launcher",
        "RoleBinding/pi-launcher",
    ]
    data = found["ConfigMap/pi-config"]["data"]
    assert data["hostfile"] == "pi-worker-0 slots=2\npi-worker-1 slots=2\n"
    assert data["discover_hosts.sh"] == "#!/bin/sh\necho pi-worker-1:2"
    assert found["Role/pi-launcher"]["rules"][1] == {
        "verbs": ["create"],
        "apiGroups": [""],
        "resources": ["pods/exec"],
        "resourceNames": ["pi-worker-0", "pi-worker-1"],
    }


def test_a_v1_launcher_with_gpus_is_the_first_host():
    manifest = yaml.safe_load(yaml.safe_dump(OLD))
    launcher = manifest["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    launcher["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    launcher["serviceAccountName"] = "mine"
    found = named(dependent_objects(read(manifest)))
    assert found["ConfigMap/pi-config"]["data"]["hostfile"].startswith("pi-launcher slots=2\npi-worker-0")
    assert "ServiceAccount/pi-launcher" not in found
    assert found["RoleBinding/pi-launcher"]["subjects"][0]["name"] == "mine"


def test_the_clean_pod_policy_of_the_run_policy_overrides_that_of_the_spec():
    assert read(OLD).run_policy.clean_pod_policy == "Running"
    assert read(changed(OLD, runPolicy={"cleanPodPolicy": "All"})).run_policy.clean_pod_policy == "All"


def test_v2_workers_serve_ssh_behind_one_service():
    first, second = members(read(NEW), 1)
    assert (first.name, second.name) == ("pi-worker-0", "pi-worker-1")
    assert second.pod["metadata"]["labels"] == {
        "training.kubeflow.org/operator-name": "mpi-operator",
        "training.kubeflow.org/job-name": "pi",
        "training.kubeflow.org/job-role": "worker",
        "training.kubeflow.org/replica-index": "1",
        "windlass.dev/generation": "1",
    }
    spec = second.pod["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("pi-worker-1", "pi")
    assert spec["dnsConfig"] == {"searches": ["pi.team.svc.cluster.local"]}
    assert spec["containers"] == [
        {
            "name": "mpi",
            "image": "pi:1",
            "resources": {"limits": {"cpu": 2}},
            "command": ["/usr/sbin/sshd", "-De"],
            "env": [{"name": "K_MPI_JOB_ROLE", "value": "worker"}],
            "volumeMounts": [{"name": "ssh-auth", "mountPath": "/root/.ssh"}],
        }
    ]
    assert spec["volumes"] == [
        {
            "name": "ssh-auth",
            "secret": {
                "secretName": "pi-ssh",
                "defaultMode": 0o600,
                "items": [
                    {"key": "ssh-privatekey", "path": "id_rsa"},
                    {"key": "ssh-publickey", "path": "id_rsa.pub"},
                    {"key": "ssh-publickey", "path": "authorized_keys"},
                ],
            },
        }
    ]


def test_dependent_objects_of_v2_are_service_config_keys_and_the_launchers_job():
    policy = {"backoffLimit": 2, "ttlSecondsAfterFinished": 60}
    found = named(dependent_objects(read(changed(NEW, runPolicy=policy)), running=["pi-worker-0"]))
    assert list(found) == ["Service/pi", "ConfigMap/pi-config", "Secret/pi-ssh", "Job/pi-launcher"]
    assert found["Service/pi"]["spec"] == {
        "clusterIP": "None",
        "selector": {"training.kubeflow.org/operator-name": "mpi-operator", "training.kubeflow.org/job-name": "pi"},
    }
    assert found["ConfigMap/pi-config"]["data"] == {
        "hostfile": "pi-worker-0.pi.team.svc slots=2\npi-worker-1.pi.team.svc slots=2\n",
        "discover_hosts.sh": "#!/bin/sh\necho pi-worker-0.pi.team.svc\n",
    }
    launcher = found["Job/pi-launcher"]["spec"]
    assert (launcher["backoffLimit"], launcher["ttlSecondsAfterFinished"]) == (2, 60)
    assert launcher["podReplacementPolicy"] == "Failed"
    owned = {**changed(NEW), "metadata": {**NEW["metadata"], "uid": "u"}}
    job = named(dependent_objects(read(owned)))["Job/pi-launcher"]
    assert job["spec"]["template"]["metadata"]["ownerReferences"] == job["metadata"]["ownerReferences"]
    template = launcher["template"]
    assert template["metadata"]["labels"]["training.kubeflow.org/job-role"] == "launcher"
    spec = template["spec"]
    assert (spec["hostname"], spec["subdomain"], spec["restartPolicy"]) == ("pi-launcher", "pi", "OnFailure")
    assert spec["schedulerName"] == "windlass"
    (container,) = spec["containers"]
    assert env(container)["OMPI_MCA_orte_set_default_slots"] == "2"
    assert env(container)["NVIDIA_VISIBLE_DEVICES"] == ""
    assert [each["mountPath"] for each in container["volumeMounts"]] == ["/root/.ssh", "/etc/mpi"]


def test_a_v2_launcher_may_compute_too():
    parsed = read(changed(NEW, runLauncherAsWorker=True))
    found = named(dependent_objects(parsed))
    assert found["Service/pi"]["spec"]["publishNotReadyAddresses"]
    assert found["ConfigMap/pi-config"]["data"]["hostfile"].startswith("pi-launcher.pi.team.svc slots=2\n")
    template = found["Job/pi-launcher"]["spec"]["template"]
    assert template["metadata"]["labels"]["training.kubeflow.org/replica-index"] == "0"
    assert "NVIDIA_VISIBLE_DEVICES" not in env(template["spec"]["containers"][0])
    indexes = [each.pod["metadata"]["labels"]["training.kubeflow.org/replica-index"] for each in members(parsed, 1)]
    assert indexes == ["1", "2"]


def test_a_v2_launcher_may_wait_until_all_workers_are_ready():
    parsed = read(changed(NEW, launcherCreationPolicy="WaitForWorkersReady"))
    assert "Job/pi-launcher" not in named(dependent_objects(parsed, running=["pi-worker-0"]))
    assert "Job/pi-launcher" in named(dependent_objects(parsed, running=["pi-worker-0", "pi-worker-1"]))


def test_a_v2_launcher_that_would_wait_exists_while_the_job_is_suspended():
    waiting = read(changed(NEW, launcherCreationPolicy="WaitForWorkersReady", runPolicy={"suspend": True}))
    assert named(dependent_objects(waiting))["Job/pi-launcher"]["spec"]["suspend"] is True


def test_only_the_gang_restarts_the_launcher_of_v2():
    launcher = dependent_objects(read(changed(NEW, runPolicy={"restartMode": "gang"})))[-1]
    assert launcher["spec"]["backoffLimit"] == 0
    assert launcher["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_an_installation_names_its_domain_and_its_images():
    settings = Settings(cluster_domain="cluster.local", kubectl_image="mirror/kubectl:1")
    found = named(dependent_objects(read(NEW, settings)))
    assert "pi-worker-0.pi.team.svc.cluster.local slots=2" in found["ConfigMap/pi-config"]["data"]["hostfile"]
    launcher = members(read(OLD, settings), 1)[0]
    assert launcher.pod["spec"]["initContainers"][0]["image"] == "mirror/kubectl:1"


def test_v2_has_variables_of_intel_mpi_and_other_home_folders():
    parsed = read(changed(NEW, mpiImplementation="Intel", sshAuthMountPath="/home/mpi/.ssh"))
    found = named(dependent_objects(parsed))
    assert found["ConfigMap/pi-config"]["data"]["hostfile"].startswith("pi-worker-0.pi.team.svc:2\n")
    volume = found["Job/pi-launcher"]["spec"]["template"]["spec"]["volumes"][0]
    assert "defaultMode" not in volume["secret"]


def test_both_versions_are_one_gang_for_the_core():
    for manifest in (OLD, NEW):
        gang = read(manifest).job
        assert [(role.name, role.replicas) for role in gang.roles] == [("launcher", 1), ("worker", 2)]


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (changed(OLD, slotsPerWorker=-1), "spec.slotsPerWorker: expects a whole number from 0 to 10000, not -1"),
        (
            changed(OLD, mpiReplicaSpecs={"Worker": OLD["spec"]["mpiReplicaSpecs"]["Worker"]}),
            "spec.mpiReplicaSpecs: has no Launcher; every job of this kind has one",
        ),
        (
            changed(NEW, mpiImplementation="LAM"),
            "spec.mpiImplementation: expects OpenMPI or Intel or MPICH, not 'LAM'",
        ),
    ],
)
def test_faults_name_the_field(manifest, message):
    assert str(read(manifest)) == message
