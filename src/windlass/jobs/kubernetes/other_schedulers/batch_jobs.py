"""Gangs as indexed Jobs, one for each role, with a headless service, and a PodGroup where the scheduler has those.

Sources: k8s.io/api v0.36, batch/v1 and scheduling/v1alpha2; sigs.k8s.io/scheduler-plugins v0.34,
apis/scheduling/v1alpha1; sigs.k8s.io/kueue v0.19, pkg/controller/jobs/job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from windlass.core.model.job import Job
from windlass.jobs.kubernetes.gang_dialects import OBJECT_KINDS, Dialect
from windlass.jobs.kubernetes.kinds.pod_group import least_size, pod_group_needs
from windlass.jobs.kubernetes.labels import COSCHEDULING_LABEL
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.other_schedulers.portable_gang import PortableGang, PortableRole, is_elastic

COSCHEDULER = "scheduler-plugins-scheduler"
"""Name of the scheduler that the chart of scheduler-plugins installs."""
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
SAME_COMPLETIONS = "kueue.x-k8s.io/job-completions-equal-parallelism"
"""Annotations of a Job that Kueue may admit with fewer pods."""

PodChange: TypeAlias = Callable[[Manifest], Manifest]


def coscheduling_objects(gang: PortableGang) -> list[Manifest]:
    """The gang with the PodGroup of scheduler-plugins."""
    kind = OBJECT_KINDS[Dialect.COSCHEDULING]
    together = least_size(gang.job) if is_elastic(gang.job) else gang.job
    spec = {"minMember": gang.least, **pod_group_needs(together)}
    group = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": gang.metadata(), "spec": spec}

    def with_group(template: Manifest) -> Manifest:
        about = template["metadata"]
        labels = {**about["labels"], COSCHEDULING_LABEL: gang.name}
        return {"metadata": {**about, "labels": labels}, "spec": {**template["spec"], "schedulerName": COSCHEDULER}}

    return [group, *jobs_and_service(gang, with_group)]


def native_objects(gang: PortableGang) -> list[Manifest]:
    """The gang with the PodGroup of Kubernetes itself, which kube-scheduler places."""
    kind = OBJECT_KINDS[Dialect.NATIVE]
    spec = {"schedulingPolicy": {"gang": {"minCount": gang.least}}}
    group = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": gang.metadata(), "spec": spec}

    def with_group(template: Manifest) -> Manifest:
        return {**template, "spec": {**template["spec"], "schedulingGroup": {"podGroupName": gang.name}}}

    return [group, *jobs_and_service(gang, with_group)]


def jobs_and_service(gang: PortableGang, change: PodChange = lambda template: template) -> list[Manifest]:
    """The headless service by which pods find each other, and a Job for each role."""
    selected = {"clusterIP": "None", "selector": gang.labels, "publishNotReadyAddresses": True}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": gang.metadata(), "spec": selected}
    return [service, *(_job(gang, role, change) for role in gang.roles)]


def _job(gang: PortableGang, role: PortableRole, change: PodChange) -> Manifest:
    """The Job of a role: its pods are named as those of a TrainingJob."""
    spec = {**job_spec(gang.job, role, change(role.template)), **end_limits(gang.job)}
    if gang.job.suspend:
        spec["suspend"] = True
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": gang.metadata(f"-{role.name}"), "spec": spec}


def end_limits(job: Job) -> Manifest:
    """The longest time of a Job, which never starts its gang again, and the time after its end."""
    ends = [each for each in (job.walltime, job.deadline) if each is not None]
    limits = {"activeDeadlineSeconds": -(-min(ends) // 1000)} if ends else {}
    return {**limits, **time_to_live(job)}


def time_to_live(job: Job) -> Manifest:
    """The time for which an ended job is kept."""
    return {} if job.ttl is None else {"ttlSecondsAfterFinished": -(-job.ttl // 1000)}


def job_spec(job: Job, role: PortableRole, template: Manifest) -> Manifest:
    """An indexed Job of the role. An elastic one replaces pods; the first failure ends any other one."""
    elastic = is_elastic(job)
    limit = job.restart.user_limit if elastic else 0
    lost = [{"type": "DisruptionTarget"}]
    on_loss = [{"action": "Ignore" if elastic else "FailJob", "onPodConditions": lost}]
    return {
        "completionMode": "Indexed",
        "completions": role.count,
        "parallelism": role.count,
        "backoffLimit": limit,
        "podFailurePolicy": {"rules": on_loss},
        "template": template,
    }
