"""Resolves a job of our kinds in its cluster for the controller."""

from __future__ import annotations

from dataclasses import replace

from windlass.backends.kubernetes.client.object_reference import referenced_job_id
from windlass.backends.kubernetes.cluster.job_resolution import NamespaceLookups, ResolvedJob, resolve_job
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.pod_assembly import SCHEDULER


def fit_job(parsed: ParsedJob, around: NamespaceLookups) -> ResolvedJob:
    """Returns the job with resolved names."""
    found = resolve_job(parsed, around)
    if other := foreign_scheduler(parsed):
        found = replace(found, trouble=f"its pods name the scheduler {other}: remove schedulerName or set windlass")
    after = tuple(replace(each, job_id=referenced_job_id(each.job_id, parsed.namespace)) for each in found.job.after)
    return replace(found, job=replace(found.job, after=after))


def foreign_scheduler(parsed: ParsedJob) -> str:
    """Returns the scheduler that its pods name, if it is not Windlass; else ""."""
    named = ((each.template.get("spec") or {}).get("schedulerName") or SCHEDULER for each in parsed.replicas)
    return next((name for name in named if name != SCHEDULER), "")
