"""TFJob: its manifest, its pods, and its dependent objects.

Source: kubeflow/training-operator v1.9, pkg/controller.v1/tensorflow, pkg/webhooks/tensorflow,
pkg/apis/kubeflow.org/v1/tensorflow_{types,defaults}.go.
"""

from __future__ import annotations

from windlass.core.model.job import SuccessRule
from windlass.jobs.kubernetes.kinds.member_policy import MemberPolicy
from windlass.jobs.kubernetes.kinds.parsed_gang import parsed_job, read_parts
from windlass.jobs.kubernetes.kinds.replica_specs import Port, ReplicaTypes, port_of
from windlass.jobs.kubernetes.kinds.services import services
from windlass.jobs.kubernetes.manifest_reader import Manifest, ManifestField
from windlass.jobs.kubernetes.parsed_job import Member, ParsedJob, Replicas
from windlass.jobs.kubernetes.pods.pod_assembly import each_member, env_vars, pod
from windlass.jobs.kubernetes.settings import Settings
from windlass.launch.tf_config import VARIABLE, cluster_of, tf_config

CHIEF, MASTER, WORKER = "Chief", "Master", "Worker"
PORT = Port("tensorflow", "tfjob-port", 2222)
TYPES = ReplicaTypes("tfReplicaSpecs", (CHIEF, MASTER, "PS", "Evaluator", WORKER), "Never", PORT, min_replicas=0)
"""The workers are the last role, which is the one that scales while a job runs."""
ALL_WORKERS = "AllWorkers"


def read(manifest: ManifestField, settings: Settings) -> ParsedJob:
    """Reads a manifest. Raises ManifestError."""
    spec = manifest["spec"]
    replicas, policy = read_parts(manifest, TYPES, lambda: success_policy(spec), lambda: dynamic_workers(spec))
    if {CHIEF, MASTER} <= {each.type for each in replicas}:
        spec[TYPES.specs].refuse("has a Chief and a Master, which are the same thing; keep the Chief")
    return parsed_job(manifest, replicas, policy, field=TYPES.specs, settings=settings)


def success_policy(spec: ManifestField) -> str:
    """Returns the success policy; "": the first worker's success is the job's. Raises ManifestError."""
    policy = spec["successPolicy"]
    return policy.choice((ALL_WORKERS,), ALL_WORKERS) if policy.text() else ""


def dynamic_workers(spec: ManifestField) -> bool:
    """Tells whether the number of workers may change. Raises ManifestError."""
    return spec["enableDynamicWorker"].flag()


def members(parsed: ParsedJob, generation: int) -> list[Member]:
    """Every pod of a generation."""
    sizes = {each.role: (each.count, port_of(each, PORT)) for each in parsed.replicas}
    cluster = cluster_of(parsed.name, parsed.namespace, sizes, parsed.settings.cluster_domain)
    dynamic = dynamic_workers(parsed.spec)
    leads = {CHIEF, MASTER} & {each.type for each in parsed.replicas}

    def one(replicas: Replicas, index: int) -> Manifest:
        lead = replicas.type in leads or (not leads and replicas.type == WORKER and index == 0)
        # A job of one pod has no TF_CONFIG: TensorFlow would wait for others.
        variables = (
            {VARIABLE: tf_config(cluster, replicas.role, index, dynamic=dynamic)} if parsed.pod_count != 1 else {}
        )
        return pod(
            parsed, replicas, index, generation=generation, env=env_vars(variables), only_in=PORT.container, lead=lead
        )

    return each_member(parsed, one)


def member_policy(parsed: ParsedJob) -> MemberPolicy:
    """The chief's success is the job's; without one the first worker's, unless all are asked for."""
    first = success_policy(parsed.spec) != ALL_WORKERS
    optional = (WORKER,) if dynamic_workers(parsed.spec) else ()
    return MemberPolicy((CHIEF, MASTER), SuccessRule.FIRST if first else SuccessRule.ALL, optional=optional)


def dependent_objects(parsed: ParsedJob) -> list[Manifest]:
    """A service for each pod."""
    return services(parsed, PORT.container)
