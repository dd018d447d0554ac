"""A job of our own, as the short YAML or the command line describes it, as pods and the service that names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from windlass import wire
from windlass.core.job import Job, Launcher, Match, Role
from windlass.core.resources import CPU, GPU, GPU_MILLI, GPU_TYPE, MEMORY, format_quantity, is_device
from windlass.jobs.errors import job_error
from windlass.jobs.kubernetes.manifest_file import Objects
from windlass.jobs.kubernetes.pods import GENERATION, SCHEDULER, env_vars
from windlass.jobs.kubernetes.reading import Manifest
from windlass.jobs.submission import Submission
from windlass.launch.ranks import Rank, ranks_of, role_named
from windlass.launch.replica_names import replica_name
from windlass.launch.torchrun import Rendezvous, environment

JOB_NAME = "windlass.dev/job-name"
ROLE = "windlass.dev/role"
REPLICA_INDEX = "windlass.dev/replica-index"
CONTAINER = "main"
_PORT = 29_500
"""torchrun's own: a pod has all ports to itself."""
_MIG = "mig-"
_LONGEST = 63
"""Of a DNS label, which a pod's host name is."""


def problem(job: Job) -> str:
    """Why this job cannot be pods, with the fix; empty if it can."""
    if job.launcher is Launcher.PLAIN and any(role.procs > 1 for role in job.roles):
        return "a pod starts one process; begin the command with torchrun, or ask for one process a replica (procs: 1)"
    if any(GPU_MILLI in role.resources for role in job.roles):
        return "Kubernetes has no resource for a part of a GPU; ask for whole GPUs, or for a MIG slice"
    longest = max((_name(job, rank) for rank in ranks_of(job)), key=len)
    if len(longest) > _LONGEST:
        return f"{longest} is too long for a pod's name; make the job's name {len(longest) - _LONGEST} letters shorter"
    return ""


def own_objects(job: Job, image: str) -> list[Manifest]:
    """The headless service and every pod of the job's first generation, all containers of one image.

    The job has no `problem`. What is the scheduler's and the lifecycle's to know (queue, priority, times, restarts,
    topology, whole nodes) stands in no pod.
    """
    return [_service(job), *(_pod(job, rank, image) for rank in ranks_of(job))]


def objects_of_jobs(submissions: Iterable[Submission], image: str | None) -> Objects:
    """The same for all jobs of a file, or one from the command line. Raises JobError."""
    found = Objects([], [])
    for submission in submissions:
        wrong = problem(submission.job)
        if submission.array:
            wrong = "an array is many jobs; render it without its array"
        if not image:
            wrong = "pods need an image; write --image with one that holds the program"
        if wrong or not image:
            raise job_error(submission.source, wrong)
        found.objects.extend(own_objects(submission.job, image))
    return found


def _name(job: Job, rank: Rank) -> str:
    return replica_name(job.name, rank.role, rank.replica)


def _service(job: Job) -> Manifest:
    """Names every pod `<pod>.<job>`, also those that are not ready: they are to meet before they are."""
    labels = {JOB_NAME: job.name}
    spec = {"clusterIP": "None", "selector": labels, "publishNotReadyAddresses": True}
    metadata = {"name": job.name, "labels": {**job.labels, **labels}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _pod(job: Job, rank: Rank, image: str) -> Manifest:
    """The pod of one replica: under either launcher it starts one process."""
    role, name = role_named(job, rank.role), _name(job, rank)
    own = {JOB_NAME: job.name, ROLE: rank.role, REPLICA_INDEX: str(rank.replica), GENERATION: "1"}
    container = {
        "name": CONTAINER,
        "image": image,
        "command": list(role.command),
        "env": _env(job, rank, role),
        "resources": _resources(role),
    }
    spec: Manifest = {
        "hostname": name,
        "subdomain": job.name,
        "restartPolicy": "Never",  # a lost member restarts the gang, not itself
        "schedulerName": SCHEDULER,
        "terminationGracePeriodSeconds": -(-job.grace // 1000),
        **_placing(job, role),
        "containers": [container],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {**job.labels, **own}},
        "spec": spec,
    }


def _env(job: Job, rank: Rank, role: Role) -> list[Manifest]:
    """What a rank is told everywhere. Inside of a pod its GPUs count from 0; its node is known once it is bound."""
    told = environment(
        job,
        rank,
        job_id=job.name,
        generation=1,
        node="",
        rendezvous=Rendezvous(f"{replica_name(job.name, job.roles[0].name, 0)}.{job.name}", _PORT),
        devices=[str(number) for number in range(role.resources.get(GPU, 0))],
    )
    if any(name.startswith(_MIG) for name in role.resources):
        del told["CUDA_VISIBLE_DEVICES"]  # a slice is known by its identifier, which the device plugin sets
    del told[wire.NODE]
    return [{"name": wire.NODE, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}, *env_vars(told)]


def _resources(role: Role) -> Manifest:
    """CPU and memory are requests, devices limits: of devices nobody gets more than was asked for."""
    requests = {name: format_quantity(name, role.resources[name]) for name in (CPU, MEMORY) if name in role.resources}
    devices = {_device(name): str(count) for name, count in role.resources.items() if is_device(name)}
    return {**({"requests": requests} if requests else {}), **({"limits": devices} if devices else {})}


def _device(name: str) -> str:
    return f"nvidia.com/{name}" if name == GPU or name.startswith(_MIG) else name


def _placing(job: Job, role: Role) -> Manifest:
    placing: Manifest = {}
    if role.node_selector:
        placing["nodeSelector"] = dict(role.node_selector)
    if role.tolerations:
        parts = ("key", "operator", "value", "effect")
        written = ({part: getattr(each, part) for part in parts} for each in role.tolerations)
        placing["tolerations"] = [{part: value for part, value in each.items() if value} for each in written]
    terms = _terms(job, role)
    if terms:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        placing["affinity"] = {"nodeAffinity": required}
    return placing


def _terms(job: Job, role: Role) -> list[Manifest]:
    """The role's terms, each under what the whole job wants besides."""
    besides = [
        *([Match(GPU_TYPE, "In", job.gpu_types)] if job.gpu_types else []),
        *([Match("kubernetes.io/hostname", "NotIn", job.avoid)] if job.avoid else []),
    ]
    terms = role.affinity or (((),) if besides else ())
    return [{"matchExpressions": _expressions([*term, *besides])} for term in terms]


def _expressions(term: Iterable[Match]) -> list[Mapping[str, object]]:
    return [
        {"key": match.key, "operator": match.operator, **({"values": list(match.values)} if match.values else {})}
        for match in term
    ]
