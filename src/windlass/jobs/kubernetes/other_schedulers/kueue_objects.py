"""The gang for Kueue: a JobSet, or a Job that Kueue may admit with fewer pods if the job is elastic.

Source: sigs.k8s.io/kueue v0.19, pkg/controller/constants and pkg/controller/jobs/job.
"""

from __future__ import annotations

from windlass.core.model.job import Job
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.other_schedulers.batch_jobs import MIN_PARALLELISM, SAME_COMPLETIONS, jobs_and_service
from windlass.jobs.kubernetes.other_schedulers.job_set import job_set
from windlass.jobs.kubernetes.other_schedulers.portable_gang import PortableGang, is_elastic

KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
"""Label of a job: its LocalQueue."""


def kueue_objects(gang: PortableGang) -> list[Manifest]:
    """The objects of the gang. The queue of the job is the name of the LocalQueue."""
    if not is_elastic(gang.job):
        return [_in_queue(job_set(gang), gang.job)]
    service, job = jobs_and_service(gang)
    labelled = _in_queue(job, gang.job)
    smaller = {MIN_PARALLELISM: str(gang.least), SAME_COMPLETIONS: "true"}
    return [service, {**labelled, "metadata": {**labelled["metadata"], "annotations": smaller}}]


def _in_queue(manifest: Manifest, job: Job) -> Manifest:
    about = manifest["metadata"]
    return {**manifest, "metadata": {**about, "labels": {**about["labels"], KUEUE_QUEUE: job.queue}}}
