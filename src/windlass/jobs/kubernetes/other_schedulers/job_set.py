"""The gang as one JobSet: a Job for each role, and the whole gang restarts after a failure.

Source: sigs.k8s.io/jobset v0.12, api/jobset/v1alpha2. Failures of the infrastructure are those of pods with the
condition DisruptionTarget, which do not count towards maxRestarts.
"""

from __future__ import annotations

from windlass.core.model.job import Job
from windlass.jobs.kubernetes.gang_dialects import OBJECT_KINDS, Dialect
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.other_schedulers.batch_jobs import job_spec, time_to_live
from windlass.jobs.kubernetes.other_schedulers.portable_gang import PortableGang, PortableRole


def job_set_host(job: str, role: str, index: int) -> str:
    """The name of a pod in the service of its JobSet: each role is one Job, of index 0."""
    return f"{job}-{role}-0-{index}"


def job_set(gang: PortableGang) -> Manifest:
    """The JobSet."""
    job, kind = gang.job, OBJECT_KINDS[Dialect.JOB_SET]
    spec: Manifest = {
        "failurePolicy": _failure_policy(job),
        "replicatedJobs": [_replicated_job(job, role) for role in gang.roles],
        **time_to_live(job),
    }
    if job.suspend:
        spec["suspend"] = True
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": gang.metadata(), "spec": spec}


def _failure_policy(job: Job) -> Manifest:
    """Restarts of the gang. The end of the walltime is no failure to restart after."""
    ends = {"name": "walltime", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}
    lost = {"name": "lost", "action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureReasons": ["PodFailurePolicy"]}
    rules = [*([ends] if job.walltime is not None else []), *([lost] if job.restart.infrastructure_limit else [])]
    return {"maxRestarts": job.restart.user_limit, **({"rules": rules} if rules else {})}


def _replicated_job(job: Job, role: PortableRole) -> Manifest:
    template = {**role.template, "spec": {name: v for name, v in role.template["spec"].items() if name != "subdomain"}}
    limit = {} if job.walltime is None else {"activeDeadlineSeconds": -(-job.walltime // 1000)}
    return {"name": role.name, "replicas": 1, "template": {"spec": {**job_spec(job, role, template), **limit}}}
