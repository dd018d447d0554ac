"""The CronTrainingJob of a job with cron; `schedules.cron_training_job.read` reads it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from windlass.jobs.description.submission import Submission
from windlass.jobs.errors import input_error
from windlass.jobs.kubernetes.kinds import trainingjob
from windlass.jobs.kubernetes.kinds.registry import read as read_job
from windlass.jobs.kubernetes.manifest_reader import Fault, Manifest
from windlass.jobs.kubernetes.manifests.job_file_objects import fault_in_a_file
from windlass.jobs.kubernetes.manifests.trainingjob_manifest import training_job
from windlass.jobs.kubernetes.pods.network_pods import UNDECIDED
from windlass.jobs.kubernetes.schedules import cron_training_job
from windlass.jobs.kubernetes.schedules.cron_fields import POLICIES
from windlass.jobs.schedules.schedule import Schedule

_LATE_MS = 4_000_000_000_000
"""A time whose run has a name as long as those of all runs until the year 2160."""


def cron_training_job_manifest(submission: Submission, namespace: str = "") -> tuple[Manifest, list[str]]:
    """The CronTrainingJob of a job in an image, and warnings about its runs. Raises InputError."""
    job, schedule = submission.job, submission.schedule
    assert schedule is not None  # noqa: S101 - callers pass schedules only
    if submission.array:
        raise input_error(submission.source, "an array is many jobs; leave out array, or cron")
    run = training_job(replace(job, suspend=False, user=""), job.name, namespace)
    spec: Manifest = {**_times(schedule), **({"suspend": True} if job.suspend else {})}
    manifest = {
        "apiVersion": cron_training_job.API_VERSION,
        "kind": cron_training_job.KIND,
        "metadata": run["metadata"],
        "spec": {**spec, "jobTemplate": {"spec": run["spec"]}},
    }
    return manifest, _warnings_of_runs(submission, run)


def run_of_schedule(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """A TrainingJob as the runs of a CronTrainingJob are; any other manifest as it is."""
    if manifest["kind"] != cron_training_job.KIND:
        return manifest
    spec = manifest["spec"]["jobTemplate"]["spec"]
    return {**manifest, "apiVersion": trainingjob.API_VERSION, "kind": trainingjob.KIND, "spec": spec}


def _times(schedule: Schedule) -> Manifest:
    deadline = schedule.starting_deadline
    policies = {ours: theirs for theirs, ours in POLICIES.items()}
    return {
        "schedule": schedule.cron,
        "timeZone": schedule.time_zone,
        "concurrencyPolicy": policies[schedule.policy],
        **({} if deadline is None else {"startingDeadlineSeconds": -(-deadline // 1000)}),
        "successfulJobsHistoryLimit": schedule.kept_succeeded,
        "failedJobsHistoryLimit": schedule.kept_failed,
    }


def _warnings_of_runs(submission: Submission, run: Manifest) -> list[str]:
    """Warnings about a run with the longest name that it gets. Raises InputError for a job that cannot be read."""
    name = cron_training_job.run_name(submission.job.name, _LATE_MS)
    parsed = read_job({**run, "metadata": {**run["metadata"], "name": name}})
    if isinstance(parsed, Fault):
        raise input_error(submission.source, fault_in_a_file(parsed))
    decided = [each for each in parsed.warnings if not each.startswith(UNDECIDED)]  # the operator sees the nodes
    return [f"{submission.job.name}: {each}" for each in decided]
