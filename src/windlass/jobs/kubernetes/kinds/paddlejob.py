"""PaddleJob: its manifest, its pods, and its dependent objects.

Source: kubeflow/training-operator v1.9, pkg/controller.v1/paddlepaddle, pkg/webhooks/paddlepaddle,
pkg/apis/kubeflow.org/v1/paddlepaddle_{types,defaults}.go.

Its elastic policy sizes the gang; V1 makes no autoscaler for it.
"""

from __future__ import annotations

from windlass.jobs.kubernetes.kinds.member_policy import MemberPolicy
from windlass.jobs.kubernetes.kinds.parsed_gang import parsed_job, read_parts
from windlass.jobs.kubernetes.kinds.replica_specs import Port, ReplicaTypes, elastic_limits, elastic_sizes, port_of
from windlass.jobs.kubernetes.kinds.services import services
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField
from windlass.jobs.kubernetes.parsed_job import Member, ParsedJob, Replicas
from windlass.jobs.kubernetes.pods.pod_assembly import EnvVar, each_member, env_vars, pod
from windlass.jobs.kubernetes.settings import Settings
from windlass.launch.paddlejob import POD_IP, environment

MASTER, WORKER = "Master", "Worker"
PORT = Port("paddle", "master", 36543)
TYPES = ReplicaTypes("paddleReplicaSpecs", (MASTER, WORKER), "OnFailure", PORT)


def read(manifest: ManifestField, settings: Settings) -> ParsedJob:
    """Reads a manifest. Raises ManifestError."""
    elastic = manifest["spec"]["elasticPolicy"]
    replicas, policy = read_parts(manifest, TYPES, lambda: elastic_limits(elastic))
    found = elastic_sizes(elastic, replicas, TYPES.specs)
    sizes = {"worker": found} if found else {}
    return parsed_job(manifest, replicas, policy, field=TYPES.specs, settings=settings, sizes=sizes)


def members(parsed: ParsedJob, generation: int) -> list[Member]:
    """Every pod of a generation."""
    has_master = parsed.replicas_of(MASTER) is not None
    port = port_of(parsed.replicas[0], PORT)

    def one(replicas: Replicas, index: int) -> Manifest:
        variables = environment(
            parsed.name, replicas.role, index, pods=parsed.pod_count, port=port, has_master=has_master
        )
        return pod(parsed, replicas, index, generation=generation, env=_env(variables), lead=replicas.type == MASTER)

    return each_member(parsed, one)


def _env(variables: dict[str, str]) -> list[EnvVar]:
    """The variables, and before them the pod's own address where one of them means it."""
    needs_address = any(f"$({POD_IP})" in value for value in variables.values())
    address = [{"name": POD_IP, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}] if needs_address else []
    return [*address, *env_vars(variables)]


def member_policy(_parsed: ParsedJob) -> MemberPolicy:
    """The masters' success is the job's; without one all workers'."""
    return MemberPolicy((MASTER,))


def dependent_objects(parsed: ParsedJob) -> list[Manifest]:
    """A service for each pod."""
    return services(parsed, PORT.container)
