"""Resolves a job of our kinds in its cluster for the controller."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.cluster.job_resolution import NamespaceLookups, ResolvedJob, resolve_job
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.pod_assembly import SCHEDULER

_MPIJOB_V1 = ("kubeflow.org/v1", "MPIJob")
_NO_RIGHTS = (
    "the operator has no rights for MPIJobs of version v1 (exec into pods, roles): "
    "windlass operator install --mpijob-v1 grants them; an MPIJob v2beta1 needs none"
)


def fit_job(
    parsed: ParsedJob, around: NamespaceLookups, pods: Iterable[Pod] = (), *, runs_mpijobs_v1: bool = True
) -> ResolvedJob:
    """Returns the job with resolved names.

    `pods`: those that it has already. `runs_mpijobs_v1`: whether the operator has the rights that they need.
    """
    found = resolve_job(parsed, around, pods)
    if other := foreign_scheduler(parsed):
        found = replace(found, trouble=f"its pods name the scheduler {other}: remove schedulerName or set windlass")
    if around.unmanaged:
        found = replace(found, trouble=around.unmanaged)
    elif not runs_mpijobs_v1 and (parsed.api_version, parsed.kind) == _MPIJOB_V1:
        found = replace(found, trouble=_NO_RIGHTS)
    # a denied job runs with what it may have
    hold = "" if found.trouble == found.denial else found.trouble
    return replace(found, job=replace(found.job, hold=hold))


def foreign_scheduler(parsed: ParsedJob) -> str:
    """Returns the scheduler that its pods name, if it is not Windlass; else ""."""
    named = ((each.template.get("spec") or {}).get("schedulerName") or SCHEDULER for each in parsed.replicas)
    return next((name for name in named if name != SCHEDULER), "")
