"""The gang for Kueue: a JobSet, or a Job that Kueue may admit with fewer pods if the job is elastic.

Source: sigs.k8s.io/kueue v0.19, pkg/controller/constants and pkg/controller/jobs/job.
"""

from __future__ import annotations

from windlass.core.model.job import Job
from windlass.jobs.errors import input_error
from windlass.jobs.kubernetes.labels import KUEUE_QUEUE
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.other_schedulers.batch_jobs import MIN_PARALLELISM, SAME_COMPLETIONS, jobs_and_service
from windlass.jobs.kubernetes.other_schedulers.job_set import job_set
from windlass.jobs.kubernetes.other_schedulers.portable_gang import PortableGang, is_elastic
from windlass.jobs.syntax.names import MAX_DNS_LABEL, NODE_NAME, is_name


def kueue_objects(gang: PortableGang) -> list[Manifest]:
    """The objects of the gang. The LocalQueue is that of the job's label, or has the name of its queue."""
    if not is_elastic(gang.job):
        return [_in_queue(job_set(gang), gang.job)]
    service, job = jobs_and_service(gang)
    labelled = _in_queue(job, gang.job)
    smaller = {MIN_PARALLELISM: str(gang.least), SAME_COMPLETIONS: "true"}
    return [service, {**labelled, "metadata": {**labelled["metadata"], "annotations": smaller}}]


def _in_queue(manifest: Manifest, job: Job) -> Manifest:
    about = manifest["metadata"]
    queue = job.labels.get(KUEUE_QUEUE, job.queue)
    if not is_name(NODE_NAME, queue) or len(queue) > MAX_DNS_LABEL:
        expected = f"small letters, digits, dashes and dots, at most {MAX_DNS_LABEL}"
        raise input_error(job.name, f"the name of a LocalQueue has {expected}, not {queue[:80]!r}; write queue")
    labels = {**about["labels"], KUEUE_QUEUE: queue}
    return {**manifest, "metadata": {**about, "labels": labels}}
