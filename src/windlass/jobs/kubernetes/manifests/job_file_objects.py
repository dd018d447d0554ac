"""Jobs of a job file or the command line as the objects that they become on a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from windlass.core.model.job import Job
from windlass.jobs.description.submission import Submission
from windlass.jobs.errors import input_error
from windlass.jobs.kubernetes.kinds.registry import read
from windlass.jobs.kubernetes.manifest_reader import Fault, Manifest
from windlass.jobs.kubernetes.manifests.manifest_file import Objects, objects_of_parsed_job
from windlass.jobs.kubernetes.manifests.trainingjob_manifest import training_job


def objects_of_jobs(submissions: Iterable[Submission]) -> Objects:
    """The service and every pod of each job's first generation. Raises InputError."""
    found = Objects([], [])
    for submission in submissions:
        parsed = read(training_job_resource(submission))
        if isinstance(parsed, Fault):
            raise input_error(submission.source, fault_in_a_file(parsed))
        found.objects.extend(objects_of_parsed_job(parsed))
        found.warnings.extend(f"{submission.source}: {parsed.name}: {warning}" for warning in parsed.warnings)
    return found


def resources_of_jobs(submissions: Iterable[Submission]) -> Objects:
    """The TrainingJob of each job. Raises InputError."""
    made = [training_job_resource(submission) for submission in submissions]
    for submission, manifest in zip(submissions, made, strict=True):
        if isinstance(fault := read(manifest), Fault):
            raise input_error(submission.source, fault_in_a_file(fault))
    return Objects(made, [])


def training_job_resource(submission: Submission) -> Manifest:
    """The TrainingJob of a job in an image. Raises InputError for an array."""
    if submission.array:
        raise input_error(submission.source, "an array is many jobs; render it without its array")
    if submission.schedule:
        raise input_error(submission.source, "a schedule is many jobs; leave out cron, or render --for kubernetes")
    return training_job(_in_the_image(submission.job), submission.job.name)


def _in_the_image(job: Job) -> Job:
    """The job without its folder and its user: the image does not have that folder."""
    return replace(job, workdir="", user="")


def fault_in_a_file(fault: Fault) -> str:
    """A fault of the object as one of its job file."""
    path = fault.path[1:] if fault.path[:1] == ("spec",) else fault.path
    return str(Fault(path, fault.message)) if path else fault.message
