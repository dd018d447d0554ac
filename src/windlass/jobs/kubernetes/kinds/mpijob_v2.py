"""MPIJob v2beta1: a launcher, which is a batch Job, reaches its workers by SSH through one headless service.

Source: kubeflow/mpi-operator v0.8, pkg/controller/mpi_job_controller.go, pkg/apis/kubeflow/v2beta1/{types,default}.go,
pkg/apis/kubeflow/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial

from windlass.jobs.kubernetes.gang_dialects import Dialect
from windlass.jobs.kubernetes.kinds import mpijob_v1
from windlass.jobs.kubernetes.kinds.member_policy import MemberPolicy
from windlass.jobs.kubernetes.kinds.mpijob_parts import VOLUME, config_map, config_volume, mount
from windlass.jobs.kubernetes.kinds.parsed_gang import parsed_job, read_parts
from windlass.jobs.kubernetes.labels import COSCHEDULING_LABEL, ROLE
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField
from windlass.jobs.kubernetes.parsed_job import LAUNCHER, WORKER, Member, ParsedJob, Replicas
from windlass.jobs.kubernetes.pods.pod_assembly import (
    JOB_NAME,
    JOB_ROLE,
    OPERATOR_NAME,
    REPLICA_INDEX,
    env_vars,
    first_container,
    group_annotations,
    metadata,
    pod_dialect,
    pod_object,
    pod_spec,
    secret_name,
    with_additions,
)
from windlass.jobs.kubernetes.settings import Settings
from windlass.launch import mpi
from windlass.launch.replica_names import replica_name

TYPES = replace(
    mpijob_v1.TYPES,
    default_counts={},
    default_restart_policies={LAUNCHER: "OnFailure"},
    restart_policies=("Never", "OnFailure"),
)
_SSH_VOLUME = "ssh-auth"
_KEYS_OBJECT = "ssh"
"""Part of the name of the Secret with the SSH keys."""
_ROOTS_KEYS = "/root/.ssh"
_AT_STARTUP, _WHEN_READY = "AtStartup", "WaitForWorkersReady"


def read(manifest: ManifestField, settings: Settings) -> ParsedJob:
    """Reads a manifest. Raises ManifestError."""
    spec = manifest["spec"]
    fields = (_slots, _implementation, _computes, _keys, _creation)
    replicas, policy = read_parts(manifest, TYPES, *(partial(field, spec) for field in fields))
    parsed = parsed_job(manifest, replicas, policy, field=TYPES.specs, settings=settings)
    # deadline and time to live are those of the launcher's Job: the deadline ends the gang with it
    deadline = parsed.job.deadline if parsed.run_policy.gang_restart else None
    return replace(parsed, job=replace(parsed.job, deadline=deadline, ttl=None))


def members(parsed: ParsedJob, generation: int) -> list[Member]:
    """Every worker of a generation. The launcher is a batch Job among the dependent objects, which creates its pod."""
    worker = parsed.replicas_of(WORKER)
    if worker is None:
        return []
    first = 1 if _computes(parsed.spec) else 0  # the launcher has index 0 then
    made = []
    for index in range(worker.count):
        name = replica_name(parsed.name, WORKER, index)
        labels = {**_labels(parsed, worker.role), REPLICA_INDEX: str(index + first)}
        spec = {**_worker_spec(parsed, worker), "hostname": name}
        made.append(Member(name, worker.role, index, pod_object(parsed, worker, name, labels, spec, generation)))
    return made


def member_policy(_parsed: ParsedJob) -> MemberPolicy:
    """The launcher is a batch Job, whose own controller restarts it. Failed workers stay: it may do without them."""
    return MemberPolicy(
        (LAUNCHER,),
        never_restarted=(LAUNCHER,),
        optional=(WORKER,),
        restarted_if_deleted=(WORKER,),
        is_limited=False,
    )


def dependent_objects(parsed: ParsedJob, running: Collection[str] = ()) -> list[Manifest]:
    """Service, config map, keys and launcher. `running`: names of the workers that are ready."""
    launcher = [] if _awaits_workers(parsed, running) else [_launcher(parsed)]
    return [_service(parsed), _config_map(parsed, running), _secret(parsed), *launcher]


def _awaits_workers(parsed: ParsedJob, running: Collection[str]) -> bool:
    """Tells whether the launcher is created later. That of a suspended job exists, and is suspended too."""
    worker = parsed.replicas_of(WORKER)
    if worker is None or parsed.run_policy.suspend or _creation(parsed.spec) != _WHEN_READY:
        return False
    return any(replica_name(parsed.name, WORKER, index) not in running for index in range(worker.count))


def _slots(spec: ManifestField) -> int:
    written = spec["slotsPerWorker"].integer(0, 10_000)
    return 1 if written is None else written


def _implementation(spec: ManifestField) -> str:
    return spec["mpiImplementation"].choice(mpi.IMPLEMENTATIONS, mpi.OPEN_MPI)


def _computes(spec: ManifestField) -> bool:
    """Tells whether the launcher is a worker too."""
    return spec["runLauncherAsWorker"].flag()


def _creation(spec: ManifestField) -> str:
    """The policy for the creation of the launcher."""
    return spec["launcherCreationPolicy"].choice((_AT_STARTUP, _WHEN_READY), _AT_STARTUP)


def _keys(spec: ManifestField) -> str:
    """Path of the SSH keys in a container."""
    return spec["sshAuthMountPath"].text() or _ROOTS_KEYS


def _labels(parsed: ParsedJob, role: str) -> dict[str, str]:
    return {OPERATOR_NAME: "mpi-operator", JOB_NAME: parsed.name, JOB_ROLE: role}


def _worker_spec(parsed: ParsedJob, worker: Replicas) -> Manifest:
    spec = _reachable(parsed, pod_spec(parsed, worker))
    container = spec["containers"][0]
    if not container.get("command") and not container.get("args"):
        container = {**container, "command": ["/usr/sbin/sshd", "-De"]}
    container = with_additions(container, env=env_vars(mpi.worker_environment()))
    # Intel MPI and MPICH call the launcher back by its plain host name.
    dns = spec.get("dnsConfig") or {}
    searches = [f"{parsed.name}.{parsed.namespace}.svc.cluster.local"]
    return {**_with_keys(parsed, spec, container), "dnsConfig": with_additions(dns, searches=searches)}


def _reachable(parsed: ParsedJob, spec: Manifest) -> Manifest:
    """The spec with the pod's host name behind the job's service, also on the host's network."""
    dns = {"dnsPolicy": "ClusterFirstWithHostNet"} if spec.get("hostNetwork") else {}
    return {**spec, "subdomain": parsed.name, **dns}


def _with_keys(parsed: ParsedJob, spec: Manifest, container: Manifest) -> Manifest:
    """The spec with its first container changed, and the keys mounted there."""
    path = _keys(parsed.spec)
    files = {"ssh-privatekey": ["id_rsa"], "ssh-publickey": ["id_rsa.pub", "authorized_keys"]}
    items = [{"key": key, "path": name} for key, names in files.items() for name in names]
    mode = {"defaultMode": 0o600} if path == _ROOTS_KEYS else {}  # another user could not read them so
    volume = {"name": _SSH_VOLUME, "secret": {"secretName": secret_name(parsed, _KEYS_OBJECT), "items": items, **mode}}
    mounted = with_additions(container, volumeMounts=[mount(_SSH_VOLUME, path)])
    return with_additions(first_container(spec, mounted), volumes=[volume])


def _launcher(parsed: ParsedJob) -> Manifest:
    """The batch Job. Its own controller retries it, ends it at the deadline, and deletes it after its time to live."""
    policy = parsed.spec["runPolicy"]
    passed_on = ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
    limits = {name: policy[name].value for name in passed_on if policy[name].value is not None}
    if parsed.run_policy.gang_restart:
        limits["backoffLimit"] = 0  # its failure is that of the gang
    suspend = {"suspend": True} if parsed.run_policy.suspend else {}
    about = metadata(parsed, f"{parsed.name}-launcher", {"app": parsed.name})
    template = _launcher_template(parsed, parsed.replicas[0])
    owners = {name: about[name] for name in ("ownerReferences",) if name in about}
    template = {**template, "metadata": {**template["metadata"], **owners}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": about,
        # The Job makes another pod only after the last one has ended: two launchers would use the same workers.
        "spec": {**limits, **suspend, "podReplacementPolicy": "Failed", "template": template},
    }


def _launcher_template(parsed: ParsedJob, launcher: Replicas) -> Manifest:
    computes = _computes(parsed.spec)
    variables = mpi.launcher_environment(_implementation(parsed.spec), _slots(parsed.spec), computes=computes)
    spec = _reachable(parsed, pod_spec(parsed, launcher))
    container = with_additions(spec["containers"][0], env=env_vars(variables))
    spec = _with_keys(parsed, spec, container)
    container = with_additions(spec["containers"][0], volumeMounts=[mount(VOLUME, mpi.CONFIG)])
    volume = config_volume(parsed, {"hostfile": 0o444, "discover_hosts.sh": 0o555})
    about = launcher.template.get("metadata") or {}
    index = {REPLICA_INDEX: "0"} if computes else {}
    group = {COSCHEDULING_LABEL: parsed.name} if pod_dialect(parsed, launcher) is Dialect.COSCHEDULING else {}
    # Our own label makes this pod, which a Job creates, a member of the gang.
    labels = {**(about.get("labels") or {}), **_labels(parsed, launcher.role), **index, **group, ROLE: launcher.role}
    noted = {**(about.get("annotations") or {}), **group_annotations(parsed, launcher)}
    annotations = {"annotations": noted} if noted else {}
    return {
        "metadata": {"labels": labels, **annotations},
        "spec": {
            **with_additions(first_container(spec, container), volumes=[volume]),
            "hostname": f"{parsed.name}-launcher",
        },
    }


def _service(parsed: ParsedJob) -> Manifest:
    selector = {OPERATOR_NAME: "mpi-operator", JOB_NAME: parsed.name}
    about = metadata(parsed, parsed.name, {"app": parsed.name})
    spec: Manifest = {"clusterIP": "None", "selector": selector}
    if _computes(parsed.spec):
        spec["publishNotReadyAddresses"] = True  # or the launcher would wait for itself
    return {"apiVersion": "v1", "kind": "Service", "metadata": about, "spec": spec}


def _config_map(parsed: ParsedJob, running: Collection[str]) -> Manifest:
    worker = parsed.replicas_of(WORKER)
    first = [f"{parsed.name}-launcher"] if _computes(parsed.spec) else []
    workers = [replica_name(parsed.name, WORKER, index) for index in range(worker.count if worker else 0)]

    def hosts(pods: list[str]) -> list[str]:
        domain = parsed.settings.cluster_domain
        return [mpi.host_name(pod, parsed.name, parsed.namespace, domain) for pod in pods]

    return config_map(
        parsed,
        {
            "hostfile": mpi.hostfile(hosts([*first, *workers]), _slots(parsed.spec), _implementation(parsed.spec)),
            "discover_hosts.sh": mpi.discover_hosts(hosts([*first, *(each for each in workers if each in running)])),
        },
    )


def _secret(parsed: ParsedJob) -> Manifest:
    """The secret for the job's keys, without data: the backend fills in a new ECDSA pair when it creates the object."""
    about = metadata(parsed, secret_name(parsed, _KEYS_OBJECT), {"app": parsed.name})
    blank = {"ssh-privatekey": "", "ssh-publickey": ""}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": about, "type": "kubernetes.io/ssh-auth", "data": blank}
