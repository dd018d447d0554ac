"""MPIJob v1: a launcher that reaches its workers by `kubectl exec`.

Source: kubeflow/training-operator v1.9, pkg/controller.v1/mpi,
pkg/apis/kubeflow.org/v1/mpi_{types,defaults,validation}.go.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from windlass.jobs.kubernetes.kinds.member_policy import MemberPolicy
from windlass.jobs.kubernetes.kinds.mpijob_parts import VOLUME, config_map, config_volume, mount
from windlass.jobs.kubernetes.kinds.parsed_gang import parsed_job, read_parts
from windlass.jobs.kubernetes.kinds.replica_specs import ReplicaTypes
from windlass.jobs.kubernetes.kinds.run_policy import clean_pod_policy
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField
from windlass.jobs.kubernetes.parsed_job import LAUNCHER, WORKER, Member, ParsedJob, Replicas
from windlass.jobs.kubernetes.pods.container_security import UNPRIVILEGED
from windlass.jobs.kubernetes.pods.pod_assembly import (
    JOB_ROLE,
    REPLICA_INDEX,
    REPLICA_TYPE,
    env_vars,
    first_container,
    job_labels,
    metadata,
    pod_object,
    pod_spec,
    with_additions,
)
from windlass.jobs.kubernetes.settings import Settings
from windlass.launch import mpi
from windlass.launch.replica_names import replica_name

TYPES = ReplicaTypes(
    "mpiReplicaSpecs",
    (LAUNCHER, WORKER),
    "Never",
    single_types=(LAUNCHER,),
    required_types=(LAUNCHER,),
    default_counts={WORKER: 0},
    fold_case=False,
)
_KUBECTL_VOLUME = "mpi-job-kubectl"
_KUBECTL_ASKS = {"cpu": "100m", "memory": "512Mi", "ephemeral-storage": "5Gi"}
_MOUNTS = [mount(_KUBECTL_VOLUME, mpi.KUBECTL), mount(VOLUME, mpi.CONFIG)]
_RBAC = "rbac.authorization.k8s.io"


def read(manifest: ManifestField, settings: Settings) -> ParsedJob:
    """Reads a manifest. Raises ManifestError."""
    spec = manifest["spec"]
    fields = (lambda: slots(spec), spec["mainContainer"].text, lambda: clean_pod_policy(spec))
    replicas, policy = read_parts(manifest, TYPES, *fields)
    if not spec["runPolicy"]["cleanPodPolicy"].text():
        policy = replace(policy, clean_pod_policy=clean_pod_policy(spec))
    spec[TYPES.specs][LAUNCHER]["template"]["spec"]["serviceAccountName"].text()
    kubectl = _kubectl(manifest["metadata"]["namespace"].text() or "default", settings.kubectl_image)
    return parsed_job(manifest, replicas, policy, field=TYPES.specs, settings=settings, init={LAUNCHER: kubectl})


def slots(spec: ManifestField) -> int:
    """Ranks that each worker takes. Raises ManifestError."""
    written = spec["slotsPerWorker"].integer(0, 10_000)
    return 1 if written is None else written


def members(parsed: ParsedJob, generation: int) -> list[Member]:
    """Every pod of a generation: the launcher, then the workers."""
    launcher, worker = parsed.replicas[0], parsed.replicas_of(WORKER)
    name = f"{parsed.name}-launcher"
    labels = {**job_labels(parsed), REPLICA_TYPE: "launcher", JOB_ROLE: "master"}
    first = pod_object(parsed, launcher, name, labels, _launcher_spec(parsed, launcher), generation)
    workers = _workers(parsed, worker, generation) if worker else []
    return [Member(name, launcher.role, 0, first), *workers]


def member_policy(_parsed: ParsedJob) -> MemberPolicy:
    """The launcher's success is the job's, and so is its failure. Pods that are deleted are created again."""
    return MemberPolicy((LAUNCHER,), never_restarted=(LAUNCHER,), replaces_deleted=True)


def dependent_objects(parsed: ParsedJob, running: Collection[str] = ()) -> list[Manifest]:
    """The hostfile and scripts, and the right to exec into the workers; nothing while the job is suspended.

    `running`: names of the workers that run.
    """
    if parsed.run_policy.suspend:
        return []
    return [_config_map(parsed, running), *_rights(parsed)]


def _workers(parsed: ParsedJob, worker: Replicas, generation: int) -> list[Member]:
    spec = _worker_spec(parsed, worker)
    made = []
    for index in range(worker.count):
        labels = {**job_labels(parsed), REPLICA_TYPE: worker.role, REPLICA_INDEX: str(index)}
        name = replica_name(parsed.name, worker.role, index)
        made.append(Member(name, worker.role, index, pod_object(parsed, worker, name, labels, spec, generation)))
    return made


def _worker_spec(parsed: ParsedJob, worker: Replicas) -> Manifest:
    """The spec of a worker, which sleeps. Open MPI looks for the remote shell's script in every rank."""
    spec = pod_spec(parsed, worker)
    container = spec["containers"][0]
    if not container.get("command"):
        container = {**container, "command": ["sleep"], "args": ["365d"]}
    container = with_additions(container, volumeMounts=[mount(VOLUME, mpi.CONFIG)])
    volume = config_volume(parsed, {"kubexec.sh": 0o555})
    return with_additions(first_container(spec, container), volumes=[volume])


def _launcher_spec(parsed: ParsedJob, launcher: Replicas) -> Manifest:
    spec = pod_spec(parsed, launcher)
    container = spec["containers"][0]
    own = {each.get("name") for each in container.get("env") or []}
    env = env_vars(mpi.launcher_of_v1(computes=_computes(launcher), own=own))
    spec = first_container(spec, with_additions(container, env=env, volumeMounts=_MOUNTS))
    volumes = [
        {"name": _KUBECTL_VOLUME, "emptyDir": {}},
        config_volume(parsed, {"kubexec.sh": 0o555, "hostfile": 0o444, "discover_hosts.sh": 0o555}),
    ]
    return {
        **with_additions(
            spec, initContainers=[_kubectl(parsed.namespace, parsed.settings.kubectl_image)], volumes=volumes
        ),
        "serviceAccountName": _account(launcher) or f"{parsed.name}-launcher",
    }


def _kubectl(namespace: str, image: str) -> Manifest:
    """The init container that installs kubectl for the launcher and waits for the workers."""
    return {
        "name": "kubectl-delivery",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "env": env_vars({"TARGET_DIR": mpi.KUBECTL, "NAMESPACE": namespace}),
        "volumeMounts": _MOUNTS,
        "resources": {"limits": _KUBECTL_ASKS, "requests": _KUBECTL_ASKS},
        "securityContext": dict(UNPRIVILEGED),
    }


def _computes(launcher: Replicas) -> bool:
    """Tells whether the launcher has GPUs of its own; it is the first of the hosts then."""
    containers = launcher.template["spec"]["containers"]
    return any("gpu" in name for each in containers for name in (each.get("resources") or {}).get("limits") or {})


def _account(launcher: Replicas) -> str:
    return str(launcher.template["spec"].get("serviceAccountName") or "")


def _config_map(parsed: ParsedJob, running: Collection[str]) -> Manifest:
    launcher, worker = parsed.replicas[0], parsed.replicas_of(WORKER)
    count = slots(parsed.spec)
    first = [f"{parsed.name}-launcher"] if _computes(launcher) else []
    workers = [replica_name(parsed.name, WORKER, index) for index in range(worker.count if worker else 0)]
    return config_map(
        parsed,
        {
            "hostfile": mpi.hostfile([*first, *workers], count),
            "kubexec.sh": mpi.kubexec(parsed.spec["mainContainer"].text()),
            "discover_hosts.sh": mpi.discover_hosts([*first, *(each for each in workers if each in running)], count),
        },
    )


def _rights(parsed: ParsedJob) -> list[Manifest]:
    """A service account for the launcher, with the rights to read pods and to exec into its own workers only."""
    launcher, worker = parsed.replicas[0], parsed.replicas_of(WORKER)
    about = metadata(parsed, f"{parsed.name}-launcher", {"app": parsed.name})
    account = _account(launcher) or about["name"]
    workers = [replica_name(parsed.name, WORKER, index) for index in range(worker.count if worker else 0)]
    rules: list[Manifest] = [{"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods"]}]
    if workers:  # a rule without names would be a rule for every pod
        exec_rule = {"verbs": ["create"], "apiGroups": [""], "resources": ["pods/exec"], "resourceNames": workers}
        rules.append(exec_rule)
    subject = {"kind": "ServiceAccount", "name": account, "namespace": parsed.namespace}
    role = {"apiGroup": _RBAC, "kind": "Role", "name": about["name"]}
    accounts = [] if _account(launcher) else [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about}]
    return [
        *accounts,
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": about, "rules": rules},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": about,
            "subjects": [subject],
            "roleRef": role,
        },
    ]
