"""JAXJob: its manifest, its pods, and its dependent objects.

Source: kubeflow/training-operator v1.9, pkg/controller.v1/jax, pkg/webhooks/jax, pkg/apis/kubeflow.org/v1/jax_types.go.
"""

from __future__ import annotations

from windlass.jobs.kubernetes.kinds.member_policy import MemberPolicy
from windlass.jobs.kubernetes.kinds.parsed_gang import parsed_job, read_parts
from windlass.jobs.kubernetes.kinds.replica_specs import Port, ReplicaTypes, port_of
from windlass.jobs.kubernetes.kinds.services import services
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField
from windlass.jobs.kubernetes.parsed_job import Member, ParsedJob, Replicas
from windlass.jobs.kubernetes.pods.pod_assembly import each_member, env_vars, pod
from windlass.jobs.kubernetes.settings import Settings
from windlass.launch.jaxjob import environment

PORT = Port("jax", "jaxjob-port", 6666)
TYPES = ReplicaTypes("jaxReplicaSpecs", ("Worker",), "Never", PORT)


def read(manifest: ManifestField, settings: Settings) -> ParsedJob:
    """Reads a manifest. Raises ManifestError."""
    replicas, policy = read_parts(manifest, TYPES)
    return parsed_job(manifest, replicas, policy, field=TYPES.specs, settings=settings)


def members(parsed: ParsedJob, generation: int) -> list[Member]:
    """Every pod of a generation."""
    port = port_of(parsed.replicas[0], PORT)

    def one(replicas: Replicas, index: int) -> Manifest:
        env = env_vars(environment(parsed.name, pods=parsed.pod_count, port=port, index=index))
        return pod(parsed, replicas, index, generation=generation, env=env, lead=index == 0)

    return each_member(parsed, one)


def member_policy(_parsed: ParsedJob) -> MemberPolicy:
    """All workers must succeed."""
    return MemberPolicy()


def dependent_objects(parsed: ParsedJob) -> list[Manifest]:
    """A service for each pod."""
    return services(parsed, PORT.container)
