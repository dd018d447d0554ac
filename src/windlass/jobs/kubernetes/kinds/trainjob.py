"""TrainJob of the Kubeflow trainer v2: a gang of pods with the names and variables that its JobSet would give them.

Source: kubeflow/trainer v2.3; sigs.k8s.io/jobset v0.10 (names and labels of pods). There is no JobSet here: pods are
the job's own; those of one step (`trainjob_steps`) are started together and restarted whole.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from windlass.core.model.job import SuccessPolicy
from windlass.core.model.resources import GPU
from windlass.jobs.kubernetes.kinds.parsed_gang import parsed_job
from windlass.jobs.kubernetes.kinds.replica_specs import MAX_REPLICAS
from windlass.jobs.kubernetes.kinds.run_policy import TRAINER as TRAINERS_OWN
from windlass.jobs.kubernetes.kinds.run_policy import check_manager, labelled_queue, seconds_as_ms
from windlass.jobs.kubernetes.kinds.trainjob_claims import claim_objects, claims_of_runtime
from windlass.jobs.kubernetes.kinds.trainjob_pods import LAUNCHER, NODE, Runtime, runtime_of
from windlass.jobs.kubernetes.kinds.trainjob_runtime import snapshot, warnings
from windlass.jobs.kubernetes.labels import QUEUE, VOLCANO_QUEUE
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField, read_all
from windlass.jobs.kubernetes.parsed_job import Member, ParsedJob, Replicas, RunPolicy
from windlass.jobs.kubernetes.pods.pod_assembly import (
    env_vars,
    job_set_labels,
    metadata,
    pod_object,
    pod_spec,
    secret_name,
    start_variables,
    upsert_env,
    with_additions,
    with_env,
)
from windlass.jobs.kubernetes.pods.pod_requests import pod_requests
from windlass.jobs.kubernetes.settings import Settings
from windlass.launch import trainer
from windlass.launch.replica_names import replica_name

_INDEX = "batch.kubernetes.io/job-completion-index"
_VARIABLES = {"torch": trainer.torch, "jax": trainer.jax, "xgboost": trainer.xgboost}
"""Variables of a trainer's pod, by framework."""
_PROCS = ("auto", "cpu", "gpu")
"""Words for the ranks of a pod."""
_SSH, _HOSTS = "mpi-ssh-auth", "mpi-hostfile"
_BACKOFF_LIMIT = 6
"""Default `backoffLimit` of batch/v1, for a job of the runtime that sets none."""


def read(manifest: ManifestField, settings: Settings) -> ParsedJob:
    """Reads a TrainJob manifest. Raises ManifestError."""
    found, _ = read_all(lambda: snapshot(manifest, settings), lambda: _own_fields(manifest))
    runtime = runtime_of(manifest, found)
    _refuse_reserved(manifest, runtime)
    parsed = parsed_job(
        manifest,
        runtime.replicas,
        _policy(manifest, runtime),
        field="runtimeRef",
        settings=settings,
        nproc_per_node=_procs(manifest, runtime),
    )
    targets = runtime.spec["template"]["spec"]["successPolicy"]["targetReplicatedJobs"].text_list()
    return replace(
        parsed,
        job=replace(parsed.job, success=SuccessPolicy(tuple(name.lower() for name in targets))),
        warnings=(*parsed.warnings, *warnings(found, manifest)),
        runtime=found,
        claims=claims_of_runtime(runtime.spec, parsed.name),
    )


def members(parsed: ParsedJob, generation: int) -> list[Member]:
    """Every pod of a generation, in the order of the runtime's jobs."""
    runtime = replace(_runtime(parsed), replicas=parsed.replicas)
    nodes = _nodes(parsed, runtime)
    return [
        _member(parsed, runtime, nodes, replicas, index, generation)
        for replicas in parsed.replicas
        for index in range(replicas.count)
    ]


def dependent_objects(parsed: ParsedJob) -> list[Manifest]:
    """Volume claims and the headless service; for MPI also the hostfile, and the Secret of SSH keys without data."""
    if parsed.run_policy.suspend:
        return []
    runtime = _runtime(parsed)
    made = [*claim_objects(runtime.spec, parsed), _service(parsed, runtime)]
    if runtime.framework == "mpi":
        made += [_secret(parsed), _hostfile(parsed, runtime)]
    return made


def _runtime(parsed: ParsedJob) -> Runtime:
    """The runtime with which a job was read."""
    if parsed.runtime is None:
        raise AssertionError("unreachable: every TrainJob is read with a runtime")
    return runtime_of(ManifestField(parsed.manifest), parsed.runtime)


def _own_fields(manifest: ManifestField) -> None:
    """Checks fields of the job that do not depend on its runtime. Raises ManifestError."""
    spec = manifest["spec"]
    read_all(
        spec["suspend"].flag,
        partial(check_manager, spec["managedBy"], (TRAINERS_OWN,)),
        partial(seconds_as_ms, spec["activeDeadlineSeconds"]),
        partial(spec["trainer"]["numNodes"].integer, 0, MAX_REPLICAS),
        partial(_written_procs, spec["trainer"]["numProcPerNode"]),
        spec["trainer"]["image"].text,
        spec["trainer"]["command"].text_list,
        spec["trainer"]["args"].text_list,
    )


def _written_procs(field: ManifestField) -> str:
    """The ranks of a pod as written: a number or a word; "" if they are absent. Raises ManifestError."""
    if isinstance(field.value, str):
        return field.choice(_PROCS, _PROCS[0])
    return str(field.integer(1, 100_000) or "")


def _policy(manifest: ManifestField, runtime: Runtime) -> RunPolicy:
    spec, job_set = manifest["spec"], runtime.spec["template"]["spec"]
    jobs = [job["template"]["spec"] for job in job_set["replicatedJobs"].items()]
    backoff = [job["backoffLimit"].integer() for job in jobs]
    deadlines = [seconds_as_ms(each["activeDeadlineSeconds"]) for each in (spec, *jobs)]
    restarts = job_set["failurePolicy"]["maxRestarts"].integer() or 0
    return RunPolicy(
        clean_pod_policy="Running",  # as the JobSet does: an ended job holds no nodes
        ttl_ms=seconds_as_ms(job_set["ttlSecondsAfterFinished"]),
        deadline_ms=min((each for each in deadlines if each is not None), default=None),
        backoff_limit=restarts + max(_BACKOFF_LIMIT if limit is None else limit for limit in backoff),
        suspend=spec["suspend"].flag(),
        managed_by=check_manager(spec["managedBy"], (TRAINERS_OWN,)),
        queue=labelled_queue(manifest) or _queue_of(runtime),
        min_available=None,
        priority_class="",
        gang_restart=True,
        ttl_keeps_job=True,  # it is the JobSet's
    )


def _queue_of(runtime: Runtime) -> str:
    """The queue that a runtime names for its jobs: by our label, or by Volcano's annotation under its policy."""
    about = runtime.spec["template"]["metadata"]
    volcano = runtime.spec["podGroupPolicy"]["volcano"].value is not None
    return about["labels"][QUEUE].text() or (about["annotations"][VOLCANO_QUEUE].text() if volcano else "")


def _refuse_reserved(manifest: ManifestField, runtime: Runtime) -> None:
    """Refuses a job that sets variables which Windlass sets in its pods. Raises ManifestError."""
    variables = _VARIABLES[runtime.framework](trainer.Nodes("", 0, ""), 0) if runtime.framework in _VARIABLES else {}
    if runtime.framework == "mpi":
        variables = trainer.mpi_launcher(0)
    for variable in manifest["spec"]["trainer"]["env"].items():
        if variable["name"].text() in variables:
            variable["name"].refuse(f"{variable['name'].text()} is set for every pod; leave it out")


def _trainer_replicas(runtime: Runtime) -> Replicas:
    """The replicas that run ranks: those of the job `node`, or of the first job."""
    return next((each for each in runtime.replicas if each.type == NODE), runtime.replicas[0])


def _procs(manifest: ManifestField, runtime: Runtime) -> str:
    """Ranks of a pod: a number, or "auto" for torch on GPUs."""
    asked = manifest["spec"]["trainer"]["numProcPerNode"]
    if not isinstance(asked.value, str) and (number := asked.integer(1, 100_000)) is not None:
        return str(number)
    requests = pod_requests(ManifestField(_trainer_replicas(runtime).template, ("spec", "trainer"))["spec"])
    gpus, cpus = requests.get(GPU, 0), requests.get("cpu", 0) // 1000
    if runtime.framework == "mpi":
        slots = runtime.ml_policy["numProcPerNode"].integer(1) or 1
        return str(gpus if slots == 1 and gpus > 1 else slots)
    if runtime.framework == "torch":
        named = next((each for each in (asked, runtime.ml_policy["numProcPerNode"]) if each.value is not None), asked)
        if not isinstance(named.value, str) and (number := named.integer(1, 100_000)) is not None:
            return str(number)
        word = named.choice(_PROCS, _PROCS[0])
        return str(max(1, cpus)) if word == "cpu" or (word == "auto" and not gpus) else word
    return "1"


def _nodes(parsed: ParsedJob, runtime: Runtime) -> trainer.Nodes:
    nodes = _trainer_replicas(runtime)
    role = next(role for role in parsed.job.roles if role.name == nodes.role)
    procs = _procs(ManifestField(parsed.manifest), runtime)
    first = f"{replica_name(parsed.name, f'{NODE}-0', 0)}.{_subdomain(parsed, runtime)}"
    return trainer.Nodes(first, nodes.count, procs, max(1, role.resources.get(GPU, 0)))


def _subdomain(parsed: ParsedJob, runtime: Runtime) -> str:
    return runtime.spec["template"]["spec"]["network"]["subdomain"].text() or parsed.name


def _member(
    parsed: ParsedJob, runtime: Runtime, nodes: trainer.Nodes, replicas: Replicas, index: int, generation: int
) -> Member:
    name = replica_name(parsed.name, replicas.name_infix, index)
    labels = {**job_set_labels(parsed, replicas.role), _INDEX: str(index)}
    spec = {
        **with_env(_spec(parsed, runtime, nodes, replicas, index), env_vars(start_variables(parsed, generation)), NODE),
        "hostname": name,
        "subdomain": _subdomain(parsed, runtime),
    }
    pod = pod_object(parsed, replicas, name, labels, spec, generation)
    about = pod["metadata"]
    pod["metadata"] = {**about, "annotations": {**about.get("annotations", {}), _INDEX: str(index)}}
    return Member(name, replicas.role, index, pod)


def _spec(parsed: ParsedJob, runtime: Runtime, nodes: trainer.Nodes, replicas: Replicas, index: int) -> Manifest:
    """The pod's spec. Every container has `JOB_COMPLETION_INDEX`; the container `node` also those of its framework."""
    variables = {}
    if runtime.framework in _VARIABLES and replicas is _trainer_replicas(runtime):
        variables = _VARIABLES[runtime.framework](nodes, index)
    elif runtime.framework == "mpi" and replicas.type == LAUNCHER:
        variables = trainer.mpi_launcher(int(nodes.procs))
    spec = pod_spec(parsed, replicas)
    if runtime.framework == "mpi":
        spec = _with_mpi(parsed, runtime, spec, launcher=replicas.type == LAUNCHER)
    every, named = env_vars({"JOB_COMPLETION_INDEX": str(index)}), _injected(runtime, replicas)
    if named and not variables:
        variables = trainer.torch(nodes, index)
    own = env_vars(variables)
    containers = [
        {**each, "env": upsert_env(each.get("env"), [*(own if each["name"] in (NODE, *named) else []), *every])}
        for each in spec["containers"]
    ]
    if not named:
        return {**spec, "containers": containers}
    first = spec.get("initContainers") or []
    init = [{**each, "env": upsert_env(each.get("env"), own)} if each["name"] in named else each for each in first]
    return {**spec, "containers": containers, **({"initContainers": init} if init else {})}


def _injected(runtime: Runtime, replicas: Replicas) -> list[str]:
    """The further containers of a pod that have torchrun's variables (`envInjection`)."""
    targets = runtime.ml_policy["envInjection"]["targets"].items() if runtime.framework == "torch" else []
    here = [each for each in targets if each["jobName"].text() == replicas.type]
    return [name for each in here for name in each["containerNames"].text_list()]


def _with_mpi(parsed: ParsedJob, runtime: Runtime, spec: Manifest, *, launcher: bool) -> Manifest:
    """The spec with the SSH keys mounted at `sshAuthMountPath`, and in the launcher the hostfile."""
    modes = {"ssh-privatekey": ("id_rsa", 0o640), "ssh-publickey": ("id_rsa.pub", 0o644)}
    items = [{"key": key, "path": path, "mode": mode} for key, (path, mode) in modes.items()]
    items.append({"key": "ssh-publickey", "path": "authorized_keys", "mode": 0o644})
    secret = {"secretName": secret_name(parsed, _SSH), "defaultMode": 0o400, "items": items}
    volumes: list[Manifest] = [{"name": _SSH, "secret": secret}]
    mounts = [{"name": _SSH, "mountPath": runtime.ml_policy["sshAuthMountPath"].text() or "/root/.ssh"}]
    if launcher:
        files = [{"key": trainer.HOSTFILE, "path": trainer.HOSTFILE, "mode": 0o444}]
        volumes.append({"name": _HOSTS, "configMap": {"name": f"{parsed.name}-{_HOSTS}", "items": files}})
        mounts.append({"name": _HOSTS, "mountPath": trainer.HOSTFILE_FOLDER})
    containers = [
        with_additions(each, volumeMounts=mounts) if each["name"] == NODE else each for each in spec["containers"]
    ]
    return {**with_additions(spec, volumes=volumes), "containers": containers}


def _service(parsed: ParsedJob, runtime: Runtime) -> Manifest:
    network = runtime.spec["template"]["spec"]["network"]
    labels = job_set_labels(parsed)
    spec = {
        "clusterIP": "None",
        "selector": labels,
        "publishNotReadyAddresses": network["publishNotReadyAddresses"].flag(default=True),
    }
    about = metadata(parsed, _subdomain(parsed, runtime), labels)
    return {"apiVersion": "v1", "kind": "Service", "metadata": about, "spec": spec}


def _secret(parsed: ParsedJob) -> Manifest:
    """The Secret of the SSH keys, without data: the backend adds a new key pair when it creates the object."""
    blank = {"ssh-privatekey": "", "ssh-publickey": ""}
    about = metadata(parsed, secret_name(parsed, _SSH), {})
    return {"apiVersion": "v1", "kind": "Secret", "metadata": about, "type": "kubernetes.io/ssh-auth", "data": blank}


def _hostfile(parsed: ParsedJob, runtime: Runtime) -> Manifest:
    """The config map with the hostfile: pods in the order of the runtime's jobs, the launcher if it runs as a node."""
    computes = runtime.ml_policy["runLauncherAsNode"].flag()
    hosts = [
        f"{replica_name(parsed.name, each.name_infix, index)}.{_subdomain(parsed, runtime)}"
        for each in parsed.replicas
        if each.type == NODE or (computes and each.type == LAUNCHER)
        for index in range(each.count)
    ]
    written = trainer.mpi_hostfile(hosts, int(_procs(ManifestField(parsed.manifest), runtime)))
    about = metadata(parsed, f"{parsed.name}-{_HOSTS}", {})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {trainer.HOSTFILE: written}}
