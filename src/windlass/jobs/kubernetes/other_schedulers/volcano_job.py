"""The gang as a Job of Volcano: a task for each role, and minAvailable for all of them.

Source: volcano.sh/apis v1.14, batch/v1alpha1. The plugin svc names the pods, env numbers them. The plugin pytorch is
left out: it counts pods where torchrun counts ranks.
"""

from __future__ import annotations

from windlass.core.model.job import Job
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.other_schedulers.batch_jobs import time_to_live
from windlass.jobs.kubernetes.other_schedulers.portable_gang import PortableGang, PortableRole

API_VERSION, SCHEDULER = "batch.volcano.sh/v1alpha1", "volcano"


def volcano_job(gang: PortableGang) -> Manifest:
    """The Job of Volcano, named as the job, in its queue."""
    job = gang.job
    spec: Manifest = {
        "schedulerName": SCHEDULER,
        "queue": job.queue,
        "minAvailable": gang.least,
        "plugins": {"svc": [], "env": []},
        "policies": _policies(job),
        "maxRetry": max(job.restart.user_limit, job.restart.infrastructure_limit),
        **time_to_live(job),
        "tasks": [_task(job, role) for role in gang.roles],
    }
    return {"apiVersion": API_VERSION, "kind": "Job", "metadata": gang.metadata(), "spec": spec}


def _policies(job: Job) -> list[Manifest]:
    """A failed pod restarts the gang as often as the job allows, else ends it."""
    on_failure = "RestartJob" if job.restart.user_limit else "TerminateJob"
    on_loss = "RestartJob" if job.restart.infrastructure_limit else "TerminateJob"
    return [{"event": "PodFailed", "action": on_failure}, {"event": "PodEvicted", "action": on_loss}]


def _task(job: Job, role: PortableRole) -> Manifest:
    spec = {name: value for name, value in role.template["spec"].items() if name != "subdomain"}
    if job.walltime is not None:
        spec["activeDeadlineSeconds"] = -(-job.walltime // 1000)
    return {"name": role.name, "replicas": role.count, "template": {**role.template, "spec": spec}}
