"""PyTorchJob: its manifest, its pods, and its dependent objects.

Source: kubeflow/training-operator v1.9, pkg/controller.v1/pytorch, pkg/webhooks/pytorch,
pkg/apis/kubeflow.org/v1/pytorch_{types,defaults}.go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windlass.core.model.job import SuccessRule
from windlass.jobs.kubernetes.bounded_integers import parse_integer
from windlass.jobs.kubernetes.kinds.member_policy import MemberPolicy
from windlass.jobs.kubernetes.kinds.parsed_gang import parsed_job, read_parts
from windlass.jobs.kubernetes.kinds.replica_specs import Port, ReplicaTypes, elastic_limits, elastic_sizes, port_of
from windlass.jobs.kubernetes.kinds.services import services
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField, read_fields
from windlass.jobs.kubernetes.parsed_job import Member, ParsedJob, Replicas
from windlass.jobs.kubernetes.pods.agent_pods import requested_agent, with_agent, with_membership
from windlass.jobs.kubernetes.pods.container_security import RESTRICTED
from windlass.jobs.kubernetes.pods.pod_assembly import (
    each_member,
    env_vars,
    metadata,
    pod,
    start_variables,
    with_additions,
)
from windlass.jobs.kubernetes.settings import Settings
from windlass.launch.pytorchjob import Elastic, PyTorchGang, environment
from windlass.launch.replica_names import replica_name

MASTER, WORKER = "Master", "Worker"
WAITER = "init-pytorch"
"""Name of the init container in which a worker waits until the master's name resolves."""
PORT = Port("pytorch", "pytorchjob-port", 23456)
TYPES = ReplicaTypes("pytorchReplicaSpecs", (MASTER, WORKER), "OnFailure", PORT, single_types=(MASTER,))
PROCS = ("auto", "cpu", "gpu", "xpu")


def read(manifest: ManifestField, settings: Settings) -> ParsedJob:
    """Reads a manifest. Raises ManifestError."""
    spec = manifest["spec"]
    fields = (lambda: _nproc_per_node(spec), lambda: elastic_limits(spec["elasticPolicy"]), lambda: _rendezvous(spec))
    found, policy = read_parts(manifest, TYPES, *fields)
    replicas = _with_agents(manifest, found, settings)
    nproc = _nproc_per_node(spec)
    elastic = _elastic(spec, manifest["metadata"]["name"].text(), replicas)
    per_node = (elastic.nproc_per_node if elastic else None) or nproc or "auto"
    sizes = {"worker": (elastic.fewest, elastic.most)} if elastic else {}
    has_master = any(each.type == MASTER for each in replicas)
    return parsed_job(
        manifest,
        replicas,
        policy,
        field=TYPES.specs,
        settings=settings,
        sizes=sizes,
        nproc_per_node=str(per_node),
        init={WORKER: _waiter(manifest["metadata"]["name"].text(), settings)} if has_master else {},
    )


def _with_agents(manifest: ManifestField, replicas: tuple[Replicas, ...], settings: Settings) -> tuple[Replicas, ...]:
    """The replicas with agents in their pods, if an annotation asks for them. A plain script stays one process."""
    way = requested_agent(manifest)
    if not way:
        return replicas
    spec = manifest["spec"]
    nproc = spec["nprocPerNode"].value or spec["elasticPolicy"]["nProcPerNode"].value
    made = []
    for each in replicas:
        where = spec[TYPES.specs][each.type_as_written]["template"]["spec"]["containers"]
        template = with_agent(each.template, PORT.container, way, settings, where, procs="" if nproc else "1")
        made.append(replace(each, template=template))
    return tuple(made)


def members(parsed: ParsedJob, generation: int) -> list[Member]:
    """Every pod of a generation."""
    gang = _gang(parsed)
    return each_member(parsed, lambda replicas, index: _pod(parsed, gang, replicas, index, generation))


def dependent_objects(parsed: ParsedJob) -> list[Manifest]:
    """A service for each pod, and an autoscaler if the elastic policy has metrics."""
    return [*services(parsed, PORT.container), *_autoscaler(parsed)]


def member_policy(parsed: ParsedJob) -> MemberPolicy:
    """The master's success is the job's; without one all workers', or any one's of an elastic job."""
    elastic = parsed.spec["elasticPolicy"].value is not None
    return MemberPolicy((MASTER,), SuccessRule.ANY if elastic else SuccessRule.ALL)


def _pod(parsed: ParsedJob, gang: PyTorchGang, replicas: Replicas, index: int, generation: int) -> Manifest:
    lead = replicas.type == MASTER or (parsed.replicas_of(MASTER) is None and index == 0)
    env = env_vars(environment(gang, replicas.role, index) | start_variables(parsed, generation))
    made = pod(parsed, replicas, index, generation=generation, env=env, lead=lead)
    if requested_agent(ManifestField(parsed.manifest)):
        made["spec"] = with_membership(made["spec"], parsed, PORT.container, made["metadata"]["name"])
    if replicas.type == WORKER and gang.master_port is not None:
        made["spec"] = with_additions(made["spec"], initContainers=[_waiter(parsed.name, parsed.settings)])
    return made


def _waiter(job: str, settings: Settings) -> Manifest:
    """Returns the init container of a worker of a job with a master."""
    master = replica_name(job, MASTER, 0)
    script = (
        f"err=1;for i in $(seq {settings.waiter_tries}); do if nslookup {master}; then err=0 && break; fi;"
        "echo waiting for master; sleep 2; done; exit $err"
    )
    return {
        "name": WAITER,
        "image": settings.waiter_image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"limits": {"cpu": "100m", "memory": "20Mi"}, "requests": {"cpu": "50m", "memory": "10Mi"}},
        "command": ["sh", "-c", script],
        "securityContext": dict(RESTRICTED),
    }


def _gang(parsed: ParsedJob) -> PyTorchGang:
    master = parsed.replicas_of(MASTER)
    elastic = _elastic(parsed.spec, parsed.name, parsed.replicas)
    nproc = _nproc_per_node(parsed.spec)
    if nproc is None and (elastic is None or elastic.nproc_per_node is None):
        nproc = "auto"
    return PyTorchGang(parsed.name, parsed.pod_count, port_of(master, PORT) if master else None, nproc, elastic)


def _nproc_per_node(spec: ManifestField) -> str | None:
    entry = spec["nprocPerNode"]
    if entry.value is None:
        return None
    word = entry.text()
    if word not in PROCS and parse_integer(word, 1, 99_999) is None:
        entry.refuse(f"expects a number, {', '.join(PROCS[:-1])} or {PROCS[-1]}")
    return word


def _elastic(spec: ManifestField, job: str, replicas: tuple[Replicas, ...]) -> Elastic | None:
    """The elastic policy, every default filled in; None without one. The workers are the last replicas."""
    policy = spec["elasticPolicy"]
    sizes = elastic_sizes(policy, replicas, TYPES.specs)
    if sizes is None:
        return None
    written = _rendezvous(spec)
    host = written.pop("host") or replica_name(job, WORKER, 0)
    port = written.pop("port") or port_of(replicas[-1], PORT)
    return Elastic(*sizes, f"{host}:{port}", **written)


def _rendezvous(spec: ManifestField) -> dict[str, Any]:
    """The fields of the elastic policy besides its sizes. Raises ManifestError with the faults of all of them."""
    policy = spec["elasticPolicy"]
    return read_fields(
        nproc_per_node=lambda: _elastic_procs(spec),
        host=policy["rdzvHost"].text,
        port=lambda: policy["rdzvPort"].integer(1, 65535),
        backend=lambda: policy["rdzvBackend"].text() or "c10d",
        max_restarts=policy["maxRestarts"].integer,
        rdzv_id=lambda: policy["rdzvId"].text() or None,
        rdzv_conf=lambda: tuple((each["key"].text(), each["value"].text()) for each in policy["rdzvConf"].items()),
        standalone=policy["standalone"].flag,
    )


def _elastic_procs(spec: ManifestField) -> int | None:
    field = spec["elasticPolicy"]["nProcPerNode"]
    if field.value is not None and spec["nprocPerNode"].value is not None:
        field.refuse("says the same as nprocPerNode; keep that one")
    return field.integer(1)


def _autoscaler(parsed: ParsedJob) -> list[Manifest]:
    """Returns the autoscaler, which sets the number of workers; none for a suspended job."""
    elastic = _elastic(parsed.spec, parsed.name, parsed.replicas)
    metrics = parsed.spec["elasticPolicy"]["metrics"].items()
    if elastic is None or not metrics or parsed.run_policy.suspend:
        return []
    return [autoscaler(parsed, elastic.fewest, elastic.most)]


def autoscaler(parsed: ParsedJob, fewest: int, most: int) -> Manifest:
    """The autoscaler of a job's elastic policy."""
    target = {"apiVersion": parsed.api_version, "kind": parsed.kind, "name": parsed.name}
    sizes = {"minReplicas": fewest, "maxReplicas": most}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata(parsed, parsed.name, {}),
        "spec": {"scaleTargetRef": target, **sizes, "metrics": parsed.spec["elasticPolicy"]["metrics"].value},
    }
