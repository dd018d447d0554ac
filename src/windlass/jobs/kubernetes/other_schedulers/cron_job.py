"""A schedule as a CronJob of Kubernetes, whose Jobs are gangs that the operator queues and places.

Kubernetes itself keeps the times, the policy and the history. A run has no TrainingJob: its pods are an external gang,
and the first failure ends it. Source: k8s.io/api v0.36, batch/v1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from windlass import wire
from windlass.core.model.job import DEFAULT_QUEUE, Job, RestartPolicy
from windlass.jobs.description.submission import Submission
from windlass.jobs.errors import input_error
from windlass.jobs.kubernetes.labels import GANG, QUEUE, SCHEDULE
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.other_schedulers.batch_jobs import end_limits, job_spec
from windlass.jobs.kubernetes.other_schedulers.indexed_template import JOB_INDEX
from windlass.jobs.kubernetes.other_schedulers.portable_gang import PortableGang, portable_gang
from windlass.jobs.kubernetes.pods.pod_assembly import SCHEDULER
from windlass.jobs.kubernetes.pods.trainingjob_template import CONTAINER
from windlass.jobs.schedules.schedule import ConcurrencyPolicy, Schedule

POLICIES = {ConcurrencyPolicy.SKIP: "Forbid", ConcurrencyPolicy.REPLACE: "Replace"}
"""Names of the policies in Kubernetes, which cannot let a run wait."""
_RUN = "WINDLASS_RUN"
"""Variable with the name of the run's Job, by which its pods are named."""
_JOB_LABEL = "metadata.labels['batch.kubernetes.io/job-name']"
_DEFAULT = Job("", ())
_NOT_OF_A_RUN = ("start_timeout", "unreachable_grace", "topology", "avoid", "preemptible")


def cron_job_objects(submission: Submission, namespace: str = "") -> tuple[list[Manifest], list[str]]:
    """The CronJob and the service of its pods, and a line for each field without effect. Raises InputError."""
    schedule = submission.schedule
    assert schedule is not None  # noqa: S101 - callers pass schedules only
    _refuse(submission, schedule)
    of_a_run = replace(submission, job=replace(submission.job, suspend=False), schedule=None)
    gang = portable_gang(of_a_run, JOB_INDEX, host=lambda _job, _role, index: f"$({_RUN})-{index}", fixed=True)
    labels = {**gang.labels, SCHEDULE: gang.name}
    about: Manifest = {"name": gang.name, "labels": labels, **({"namespace": namespace} if namespace else {})}
    spec = {**_times(schedule), "jobTemplate": _job_template(gang)}
    if submission.job.suspend:
        spec["suspend"] = True
    service = {"clusterIP": "None", "selector": gang.labels, "publishNotReadyAddresses": True}
    objects = [
        {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": about, "spec": spec},
        {"apiVersion": "v1", "kind": "Service", "metadata": about, "spec": service},
    ]
    return objects, [*gang.warnings, *(f"{gang.name}: {text}" for text in _lost_fields(submission.job))]


def _refuse(submission: Submission, schedule: Schedule) -> None:
    """Refuses what a CronJob cannot do."""
    wrong = ""
    if submission.array:
        wrong = "an array is many jobs; leave out array, or cron"
    elif len(submission.job.roles) > 1:
        wrong = "a CronJob has one kind of pods; write one role"
    elif schedule.policy not in POLICIES:
        wrong = f"cron_policy {schedule.policy}: a CronJob lets no run wait; write skip or replace"
    elif _has_extensions(schedule.cron):
        wrong = "cron: a CronJob knows no L, W and # in days; write numbers"
    if wrong:
        raise input_error(submission.source, wrong)


def _has_extensions(cron: str) -> bool:
    """Whether the days of an expression have letters that CronSim knows and Kubernetes does not."""
    fields = cron.upper().split()
    if len(fields) == 1:  # @daily
        return False
    day, weekday = fields[2], fields[4]
    return any(letter in day for letter in "LW") or any(letter in weekday for letter in "L#")


def _times(schedule: Schedule) -> Manifest:
    deadline = schedule.starting_deadline
    return {
        "schedule": schedule.cron,
        "timeZone": schedule.time_zone,
        "concurrencyPolicy": POLICIES[schedule.policy],
        "successfulJobsHistoryLimit": schedule.kept_succeeded,
        "failedJobsHistoryLimit": schedule.kept_failed,
        **({} if deadline is None else {"startingDeadlineSeconds": -(-deadline // 1000)}),
    }


def _job_template(gang: PortableGang) -> Manifest:
    """The Job of each run: one gang, whose first pod has the address that all others know."""
    [role] = gang.roles
    template, queue = role.template, gang.job.queue
    labels = {**template["metadata"]["labels"], GANG: gang.name}
    if queue != DEFAULT_QUEUE:
        labels[QUEUE] = queue
    spec = template["spec"]
    containers = [_with_run(each) if each["name"] == CONTAINER else each for each in spec["containers"]]
    pods = {
        "metadata": {**template["metadata"], "labels": labels},
        "spec": {**spec, "schedulerName": SCHEDULER, "containers": containers},
    }
    return {"metadata": {"labels": labels}, "spec": {**job_spec(gang.job, role, pods), **end_limits(gang.job)}}


def _with_run(container: Manifest) -> Manifest:
    """The container with the name of its run, which is also the job's id in the run: runs share no checkpoints."""
    run: dict[str, Any] = {"name": _RUN, "valueFrom": {"fieldRef": {"fieldPath": _JOB_LABEL}}}
    env = [{**each, "value": f"$({_RUN})"} if each["name"] == wire.JOB_ID else each for each in container["env"]]
    return {**container, "env": [run, *env]}


def _lost_fields(job: Job) -> Iterator[str]:
    """Fields without effect, with reasons."""
    if job.restart != RestartPolicy(user_limit=0, infrastructure_limit=0):
        yield "restart: the first failure ends a run, because a Job does not restart its gang"
    if job.priority:
        yield "priority: pods have a PriorityClass by name; write pod: {spec: {priorityClassName: NAME}}"
    if any(role.elastic for role in job.roles):
        yield "elastic: a run has the number of pods that it requests"
    if job.gpu_types:
        yield "gpu_type: labels of GPU models differ from cluster to cluster; write selector"
    for name in _NOT_OF_A_RUN:
        if getattr(job, name) != getattr(_DEFAULT, name):
            yield f"{name}: a CronJob has no such field"
