"""XGBoostJob: its manifest, its pods, and its dependent objects.

Source: kubeflow/training-operator v1.9, pkg/controller.v1/xgboost, pkg/webhooks/xgboost,
pkg/apis/kubeflow.org/v1/xgboost_types.go.
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
from windlass.launch.xgboostjob import XGBoostGang, environment

MASTER, WORKER = "Master", "Worker"
PORT = Port("xgboost", "xgboostjob-port", 9999)
TYPES = ReplicaTypes(
    "xgbReplicaSpecs", (MASTER, WORKER), "Never", PORT, single_types=(MASTER,), required_types=(MASTER,), min_replicas=0
)


def read(manifest: ManifestField, settings: Settings) -> ParsedJob:
    """Reads a manifest. Raises ManifestError."""
    replicas, policy = read_parts(manifest, TYPES)
    return parsed_job(manifest, replicas, policy, field=TYPES.specs, settings=settings)


def members(parsed: ParsedJob, generation: int) -> list[Member]:
    """Every pod of a generation."""
    gang = _gang(parsed)

    def one(replicas: Replicas, index: int) -> Manifest:
        env = env_vars(environment(gang, replicas.role, index))
        return pod(parsed, replicas, index, generation=generation, env=env, lead=replicas.type == MASTER)

    return each_member(parsed, one)


def _gang(parsed: ParsedJob) -> XGBoostGang:
    master, worker = parsed.replicas[0], parsed.replicas_of(WORKER)
    worker_port = port_of(worker, PORT) if worker else PORT.number
    return XGBoostGang(parsed.name, worker.count if worker else 0, port_of(master, PORT), worker_port)


def member_policy(_parsed: ParsedJob) -> MemberPolicy:
    """The master's success is the job's."""
    return MemberPolicy((MASTER,))


def dependent_objects(parsed: ParsedJob) -> list[Manifest]:
    """A service for each pod."""
    return services(parsed, PORT.container)
