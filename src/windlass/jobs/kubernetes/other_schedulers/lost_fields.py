"""Fields of a job that a scheduler of others cannot express, each with what to do instead."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.core.model.job import DEFAULT_QUEUE, Job, RestartPolicy, VerdictUse
from windlass.jobs.kubernetes.labels import KUEUE_QUEUE
from windlass.jobs.kubernetes.other_schedulers.other_scheduler import OtherScheduler
from windlass.jobs.kubernetes.other_schedulers.portable_gang import is_elastic

_DEFAULT = Job("", ())
_POLICY = RestartPolicy()
_WITH_JOBS = (OtherScheduler.COSCHEDULING, OtherScheduler.NATIVE)
"""Targets whose gang is batch Jobs, which replace single pods."""
_WITH_JOB_SETS = (OtherScheduler.JOBSET, OtherScheduler.KUEUE)
_WITH_QUEUES = (OtherScheduler.KUEUE, OtherScheduler.VOLCANO)


def lost_fields(job: Job, target: OtherScheduler) -> Iterator[str]:
    """Names of fields with reasons."""
    yield from _of_the_order(job, target)
    yield from _of_the_size(job, target)
    yield from _of_the_times(job, target)
    yield from _of_the_restarts(job, target)
    if job.gpu_types:
        yield "gpu_type: labels of GPU models differ from cluster to cluster; write selector"
    if job.topology:
        yield "topology: levels are those of Windlass; write annotations of the scheduler into pod: metadata"
    if any(role.whole_node for role in job.roles):
        yield "whole_node: ask for all devices of a node, or write podAntiAffinity into pod"
    if job.success != _DEFAULT.success:
        yield "success: the gang succeeds when all its pods have succeeded"


def _of_the_order(job: Job, target: OtherScheduler) -> Iterator[str]:
    if job.queue != DEFAULT_QUEUE and target not in _WITH_QUEUES:
        yield f"queue: {target} has no queues"
    if target is OtherScheduler.KUEUE and job.labels.get(KUEUE_QUEUE, job.queue) != job.queue != DEFAULT_QUEUE:
        yield f"queue: the label {KUEUE_QUEUE} names the LocalQueue; remove one of them"
    if job.priority:
        yield "priority: pods have a PriorityClass by name; write pod: {spec: {priorityClassName: NAME}}"
    if job.after:
        yield "after: the scheduler does not know the other job; apply the manifests when it has ended"
    if job.begin is not None:
        yield "begin: the scheduler knows no earliest start; apply the manifests then"
    if not job.preemptible:
        yield "preemptible: the scheduler decides by priority alone"
    if job.suspend and target is OtherScheduler.VOLCANO:
        yield "suspend: Jobs of Volcano begin to wait at once"
    if job.suspend and target is OtherScheduler.KUEUE:
        yield "suspend: Kueue starts each suspended job that it admits; hold its LocalQueue by stopPolicy"


def _of_the_size(job: Job, target: OtherScheduler) -> Iterator[str]:
    if not any(role.elastic for role in job.roles):
        return
    if target is OtherScheduler.JOBSET:
        yield "elastic: a JobSet has a fixed number of pods, the largest one"
    elif not is_elastic(job):
        yield "elastic: only one role under torchrun or the agent changes its size; all pods are started"
    elif target is OtherScheduler.KUEUE:
        yield "elastic: Kueue admits fewer pods than the maximum, and does not grow the gang later"


def _of_the_times(job: Job, target: OtherScheduler) -> Iterator[str]:
    if job.deadline is not None and (target is OtherScheduler.VOLCANO or _has_job_set(job, target)):
        yield "deadline: only time ends the gang; Kueue has the label kueue.x-k8s.io/max-exec-time-seconds"
    if job.walltime is not None and target is OtherScheduler.VOLCANO and job.restart.user_limit:
        yield "time: its end is a failure of the pods for Volcano, which restarts the gang"
    for name in ("start_timeout", "unreachable_grace"):
        if getattr(job, name) != getattr(_DEFAULT, name):
            yield f"{name}: {target} has no such limit for one job"


def _has_job_set(job: Job, target: OtherScheduler) -> bool:
    return target is OtherScheduler.JOBSET or (target is OtherScheduler.KUEUE and not is_elastic(job))


def _of_the_restarts(job: Job, target: OtherScheduler) -> Iterator[str]:
    restart = job.restart
    restarts_whole = target is OtherScheduler.VOLCANO or _has_job_set(job, target)
    if restart.user_limit and not restarts_whole and not is_elastic(job):
        yield "restart.user: a Job replaces single pods and not its gang; the first failure ends it. See --for jobset"
    if restart.infrastructure_limit and not restarts_whole and not is_elastic(job):
        yield "restart.infrastructure: a Job that loses a pod ends, because its gang cannot restart. See --for jobset"
    if _has_job_set(job, target) and restart.infrastructure_limit not in (0, _POLICY.infrastructure_limit):
        yield "restart.infrastructure: a JobSet restarts after each eviction"
    if target is OtherScheduler.VOLCANO and restart.user_limit and restart.user_limit != restart.infrastructure_limit:
        yield f"restart: Volcano has one limit, maxRetry: {max(restart.user_limit, restart.infrastructure_limit)}"
    for name in ("retryable_exit_codes", "fatal_exit_codes"):
        if getattr(restart, name):
            yield f"restart.{name}: exit codes are not told apart"
    for name in ("backoff_base", "backoff_max", "healthy_after"):
        if getattr(restart, name) != getattr(_POLICY, name):
            yield f"restart.{name.removesuffix('_base')}: the gang restarts at once"
    if restart.verdict is VerdictUse.ACT:
        yield "restart.verdict: only the operator of Windlass diagnoses failures"
